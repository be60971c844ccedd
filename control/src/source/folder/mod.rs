//! A folder of manifests, watched.
//!
//! `*.yaml`, `*.yml` and `*.json`, also in folders below. A changed file is read alone, and only the objects in it that differ
//! are told. A file whose content cannot be used keeps the last objects that were good; a folder that is gone keeps all of them.

mod document;
mod file;
mod ledger;
mod load;
mod scan;
mod strict_json;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use weft_proto::model::Problem;

use self::file::Stamp;
use self::ledger::Ledger;
use self::watch::{Change, Stopper, Watcher};
use super::{Event, Events, Source};

/// How often the folder is looked through when the kernel says nothing.
const RESCAN: Duration = Duration::from_secs(2);

/// Why a folder cannot be a source.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It is not there, not a folder, or not ours to read.
    #[error("manifest folder {path}: {source}: give a folder that exists and can be read")]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// No thread to read it with.
    #[error("cannot start the reader of the manifest folder: {0}")]
    Thread(std::io::Error),
    /// The thread that reads it is gone.
    #[error("the reader of the manifest folder has stopped unexpectedly")]
    ReaderGone,
}

/// A folder of manifests.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The folder at `root`.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, FolderError> {
        let root = root.into();
        let checked = std::fs::canonicalize(&root).and_then(|_| std::fs::read_dir(&root));
        match checked {
            Ok(_) => Ok(Self { root }),
            Err(source) => Err(FolderError::Unreadable { path: root, source }),
        }
    }
}

impl Source for Folder {
    type Error = FolderError;

    async fn run(
        self,
        events: mpsc::Sender<Events>,
        drain: CancellationToken,
    ) -> Result<(), FolderError> {
        // An absolute name, so that the names in events compare whatever the working directory.
        let root = std::path::absolute(&self.root).unwrap_or(self.root);
        let (watcher, stopper) = Watcher::new(&root);
        let (ended, end) = oneshot::channel();
        // A plain thread: a runtime that shuts down would wait for a blocking task, and with it for the next change.
        std::thread::Builder::new()
            .name("weft-folder".to_owned())
            .spawn(move || {
                Reader::new(root, events).run(watcher);
                // Nobody may be waiting any more.
                let _ = ended.send(());
            })
            .map_err(FolderError::Thread)?;
        // Also when this future is dropped.
        let _stop = StopOnDrop(stopper);
        tokio::select! {
            ended = end => ended.map_err(|_| FolderError::ReaderGone),
            () = drain.cancelled() => Ok(()),
        }
    }
}

struct StopOnDrop(Stopper);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Reads and compares; runs on a thread of its own.
struct Reader {
    root: PathBuf,
    events: mpsc::Sender<Events>,
    ledger: Ledger,
    /// Files as they were when they were read.
    stamps: HashMap<Arc<str>, Option<Stamp>>,
    /// Problems of the folder itself.
    told: Vec<Problem>,
}

/// Nobody listens any more.
struct Closed;

impl Reader {
    fn new(root: PathBuf, events: mpsc::Sender<Events>) -> Self {
        Self {
            root,
            events,
            ledger: Ledger::default(),
            stamps: HashMap::new(),
            told: Vec::new(),
        }
    }

    fn run(mut self, mut watcher: Watcher) {
        let _ = self.serve(&mut watcher);
    }

    fn serve(&mut self, watcher: &mut Watcher) -> Result<(), Closed> {
        self.scan()?;
        self.send(vec![Event::Synced])?;
        while let Some(change) = watcher.next(RESCAN) {
            if self.events.is_closed() {
                return Err(Closed);
            }
            watcher.follow();
            match change {
                Change::All => self.scan()?,
                Change::Files(paths) => self.look_at(&paths)?,
            }
        }
        Ok(())
    }

    /// Files that the kernel has named: read whatever their stamps say.
    fn look_at(&mut self, paths: &[PathBuf]) -> Result<(), Closed> {
        for path in paths.iter().filter(|p| file::is_manifest(p)) {
            if !path.exists() {
                // Perhaps the whole folder went: the scan knows.
                return self.scan();
            }
            let name: Arc<str> = scan::relative(&self.root, path).into();
            self.read(&name, path)?;
        }
        Ok(())
    }

    /// All files, of which those are read whose stamp differs.
    fn scan(&mut self) -> Result<(), Closed> {
        let listing = match scan::list(&self.root) {
            Ok(listing) => listing,
            Err(error) => {
                let message = format!(
                    "the manifest folder cannot be read ({error}): what was in it stays in effect until it is back"
                );
                return self.tell_folder(vec![file::problem("", message)]);
            }
        };
        self.tell_folder(listing.problems)?;
        self.forget(&listing.files)?;
        let changed = listing.files.into_iter().filter(|(name, (_, stamp))| {
            let known = self.stamps.get(name).copied().flatten();
            known.is_none() || known != *stamp
        });
        let changed: Vec<_> = changed
            .map(|(name, (path, stamp))| load::Job {
                name,
                path,
                bytes: stamp.map_or(0, |s| s.bytes()),
            })
            .collect();
        for batch in load::batches(&changed) {
            for (job, content) in batch.iter().zip(load::all(batch)) {
                self.take(&job.name, content)?;
            }
        }
        Ok(())
    }

    fn forget(
        &mut self,
        present: &BTreeMap<Arc<str>, (PathBuf, Option<Stamp>)>,
    ) -> Result<(), Closed> {
        // A listing may miss a file that is being replaced meanwhile: ask for it by name before believing that it is gone.
        let is_gone = |name: &str| {
            !present.contains_key(name) && fs::symlink_metadata(self.root.join(name)).is_err()
        };
        let gone: Vec<Arc<str>> = self
            .ledger
            .files()
            .filter(|n| is_gone(n))
            .cloned()
            .collect();
        self.stamps.retain(|name, _| present.contains_key(name));
        for name in gone {
            self.apply(&name, None)?;
        }
        Ok(())
    }

    fn read(&mut self, name: &Arc<str>, path: &Path) -> Result<(), Closed> {
        self.take(name, file::load(path, name))
    }

    fn take(&mut self, name: &Arc<str>, content: Option<file::Content>) -> Result<(), Closed> {
        self.stamps
            .insert(Arc::clone(name), content.as_ref().and_then(|c| c.stamp));
        self.apply(name, content)
    }

    fn apply(&mut self, name: &Arc<str>, content: Option<file::Content>) -> Result<(), Closed> {
        let events = self.ledger.update(name, content);
        self.send(events)
    }

    fn tell_folder(&mut self, problems: Vec<Problem>) -> Result<(), Closed> {
        if problems == self.told {
            return Ok(());
        }
        self.told.clone_from(&problems);
        self.send(vec![Event::Problems(String::new(), problems)])
    }

    fn send(&self, events: Events) -> Result<(), Closed> {
        if events.is_empty() {
            return Ok(());
        }
        self.events.blocking_send(events).map_err(|_| Closed)
    }
}

/// What one file says, as events.
#[cfg(test)]
pub(crate) fn read_file(path: &Path, name: &str) -> Events {
    Ledger::default().update(&Arc::from(name), file::load(path, name))
}
