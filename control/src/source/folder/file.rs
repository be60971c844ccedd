//! One file: what it is, and what it says.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use weft_proto::model::{Problem, Severity};

use super::document;
use crate::read::{Item, Reading};

/// A folder holds manifests, not disk images; the bound keeps one slip from taking all memory.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// What a broken file may say about itself.
const MAX_PROBLEMS: usize = 200;
/// A change this soon after the last may leave the time stamp as it was: some ticks of the kernel's clock,
const RACY: Duration = Duration::from_millis(100);
/// or the resolution of a file system that keeps whole seconds only.
const RACY_COARSE: Duration = Duration::from_secs(2);

/// What tells a file that may have changed from one that has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether it is so fresh that an equal stamp does not prove equal content.
    fn is_racy(&self) -> bool {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let (seconds, nanos) = self.changed;
        let changed = Duration::new(
            u64::try_from(seconds).unwrap_or_default(),
            u32::try_from(nanos).unwrap_or_default(),
        );
        let racy = if nanos == 0 { RACY_COARSE } else { RACY };
        now.saturating_sub(changed) <= racy
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Its objects, in order.
    pub(super) items: Vec<Item>,
    /// What is wrong with them.
    pub(super) problems: Vec<Problem>,
    /// Part of it could not even be read far enough to tell which object it is.
    pub(super) unreadable: bool,
    /// The file as it was; `None` when it must be looked at again.
    pub(super) stamp: Option<Stamp>,
}

/// Whether a file of this name is read.
pub(super) fn is_manifest(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden
        && path
            .extension()
            .is_some_and(|e| e == "yaml" || e == "yml" || e == "json")
}

/// Reads the file at `path`, which problems call `name`. `None` when it is not there.
pub(super) fn load(path: &Path, name: &str) -> Option<Content> {
    match read(path) {
        Ok((bytes, stamp)) => {
            let json = path.extension().is_some_and(|e| e == "json");
            let mut content = interpret(&bytes, name, json);
            content.stamp = (!stamp.is_racy()).then_some(stamp);
            Some(content)
        }
        // A symbolic link that leads nowhere is somebody's mistake; a file that has gone is not.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => None,
        Err(error) => Some(Content {
            problems: vec![problem(
                name,
                format!("cannot be read ({error}): the file's last good objects stay in effect"),
            )],
            unreadable: true,
            ..Content::default()
        }),
    }
}

fn read(path: &Path) -> io::Result<(Vec<u8>, Stamp)> {
    // Before opening: to open a FIFO would wait for its writer.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(io::Error::other(format!(
            "{} MiB is more than {} MiB: split it",
            metadata.len() >> 20,
            MAX_FILE_BYTES >> 20
        )));
    }
    Ok((fs::read(path)?, Stamp::of(&metadata)))
}

fn interpret(bytes: &[u8], name: &str, json: bool) -> Content {
    let mut reading = Reading::default();
    let mut unreadable = false;
    for document in document::parse(bytes, json) {
        let origin: Arc<str> = format!("{name}:{}", document.line).into();
        match document.value {
            Ok(value) => reading.add(value, &origin),
            Err(message) => {
                unreadable = true;
                reading.problems.push(problem(&origin, message));
            }
        }
    }
    Content {
        items: reading.items,
        problems: bounded(reading.problems, name),
        unreadable,
        stamp: None,
    }
}

fn bounded(mut problems: Vec<Problem>, name: &str) -> Vec<Problem> {
    if problems.len() > MAX_PROBLEMS {
        let more = problems.len() - MAX_PROBLEMS;
        // Errors first, so that none is hidden behind warnings.
        problems.sort_by_key(|p| p.severity);
        problems.truncate(MAX_PROBLEMS);
        problems.push(problem(
            name,
            format!("has {more} problems more than the {MAX_PROBLEMS} that are shown"),
        ));
    }
    problems
}

pub(super) fn problem(origin: &str, message: String) -> Problem {
    Problem {
        origin: origin.to_owned(),
        object: String::new(),
        field: String::new(),
        message,
        severity: Severity::Error,
    }
}
