//! The kernel's word that something in the folder has changed.
//!
//! It is only a hint: the folder is looked through every few seconds anyway, so that no lost event is lost for long.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

/// Events closer together than this are one change. Short, because a file counts only once it is closed or moved into place.
const QUIET: Duration = Duration::from_millis(1);
/// A change is acted on after this long, quiet or not.
const LONGEST: Duration = Duration::from_millis(50);
/// A file that is being written is left alone until it is closed, but no longer than this.
const WRITING: Duration = Duration::from_secs(1);

/// What may have changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// These files.
    Files(Vec<PathBuf>),
    /// Anything.
    All,
}

enum Signal {
    Event(notify::Result<notify::Event>),
    Stop,
}

/// Ends a [`Watcher::next`] from another thread.
#[derive(Clone, Debug)]
pub(super) struct Stopper(Sender<Signal>);

impl Stopper {
    pub(super) fn stop(&self) {
        // Nobody listens any more: then it has stopped.
        let _ = self.0.send(Signal::Stop);
    }
}

/// Watches one folder, however often it is removed and made again.
#[derive(Debug)]
pub(super) struct Watcher {
    root: PathBuf,
    sender: Sender<Signal>,
    signals: Receiver<Signal>,
    /// The watch, and the device and inode of the folder it is on.
    watch: Option<(RecommendedWatcher, (u64, u64))>,
    /// Files that are open for writing, and since when.
    writing: HashMap<PathBuf, Instant>,
}

impl Watcher {
    pub(super) fn new(root: &Path) -> (Self, Stopper) {
        let (sender, signals) = channel();
        let stopper = Stopper(sender.clone());
        let mut watcher = Self {
            root: root.to_path_buf(),
            sender,
            signals,
            watch: None,
            writing: HashMap::new(),
        };
        watcher.follow();
        (watcher, stopper)
    }

    /// Makes sure that the watch is on the folder which now has the name.
    pub(super) fn follow(&mut self) {
        let now = std::fs::metadata(&self.root)
            .ok()
            .map(|m| (m.dev(), m.ino()));
        if now.is_some() && now == self.watch.as_ref().map(|(_, id)| *id) {
            return;
        }
        self.watch = None;
        let Some(id) = now else { return };
        let sender = self.sender.clone();
        let made = notify::recommended_watcher(move |event| {
            let _ = sender.send(Signal::Event(event));
        })
        .and_then(|mut w| w.watch(&self.root, RecursiveMode::Recursive).map(|()| w));
        match made {
            Ok(watch) => self.watch = Some((watch, id)),
            Err(error) => {
                tracing::warn!(folder = %self.root.display(), %error, "cannot watch, looking every few seconds instead");
            }
        }
    }

    /// Waits until something may have changed, `patience` at most. `None`: told to stop.
    pub(super) fn next(&mut self, patience: Duration) -> Option<Change> {
        let deadline = Instant::now() + patience;
        let mut batch = Batch::default();
        loop {
            let until = batch.due().unwrap_or(deadline).min(self.oldest(deadline));
            match self
                .signals
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
                Ok(Signal::Event(Ok(event))) => self.note(event, &mut batch),
                // The queue has overflowed, or the like.
                Ok(Signal::Event(Err(_))) => batch.everything(),
                Err(RecvTimeoutError::Timeout) => {
                    self.give_up_waiting(&mut batch);
                    if batch.is_empty() && Instant::now() < deadline {
                        continue;
                    }
                    return Some(batch.finish());
                }
            }
        }
    }

    fn oldest(&self, deadline: Instant) -> Instant {
        let first = self.writing.values().min();
        first.map_or(deadline, |since| deadline.min(*since + WRITING))
    }

    fn note(&mut self, event: notify::Event, batch: &mut Batch) {
        if event.need_rescan() {
            batch.everything();
        }
        for path in event.paths {
            match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
                    self.writing.remove(&path);
                    batch.file(path);
                }
                EventKind::Access(_) => {}
                // Somebody writes: wait for the close, so that no half of a file is taken for the whole.
                EventKind::Modify(ModifyKind::Data(_)) => {
                    self.writing.entry(path).or_insert_with(Instant::now);
                }
                EventKind::Create(notify::event::CreateKind::File) if !path.is_symlink() => {
                    self.writing.entry(path).or_insert_with(Instant::now);
                }
                _ => {
                    self.writing.remove(&path);
                    batch.anything_at(path, &self.root);
                }
            }
        }
    }

    fn give_up_waiting(&mut self, batch: &mut Batch) {
        self.writing.retain(|path, since| {
            let wait = since.elapsed() < WRITING;
            if !wait {
                batch.file(path.clone());
            }
            wait
        });
    }
}

/// Changes that are close together.
#[derive(Default)]
struct Batch {
    first: Option<Instant>,
    last: Option<Instant>,
    files: Vec<PathBuf>,
    all: bool,
}

impl Batch {
    fn touch(&mut self) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    fn file(&mut self, path: PathBuf) {
        self.touch();
        if !self.files.contains(&path) {
            self.files.push(path);
        }
    }

    /// A file was renamed or removed, or a folder was touched in any way.
    fn anything_at(&mut self, path: PathBuf, root: &Path) {
        if path != root && super::file::is_manifest(&path) && !path.is_dir() {
            self.file(path);
        } else {
            self.everything();
        }
    }

    fn everything(&mut self) {
        self.touch();
        self.all = true;
    }

    const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn due(&self) -> Option<Instant> {
        Some((self.first? + LONGEST).min(self.last? + QUIET))
    }

    fn finish(self) -> Change {
        if self.all || self.is_empty() {
            Change::All
        } else {
            Change::Files(self.files)
        }
    }
}
