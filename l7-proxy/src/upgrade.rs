//! Another binary takes over: how it is noticed, and how the one before it ends.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::admin;
use crate::process::Process;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A drain tells clients for so long to come anew (`--drain-time-s`); then Envoy stops listening.
const STOPS_LISTENING: Duration = Duration::from_secs(6);
/// Connections that are still open are cut off then: two Envoys take the memory of two.
const RETIRED_WITHIN: Duration = Duration::from_secs(600);
/// Between two looks at what is open.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// From SIGTERM to SIGKILL.
const END_WITHIN: Duration = Duration::from_secs(3);

/// Which file this is: another one, or another content, is another binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binary {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Binary {
    /// What is at `path` now, through links.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
        })
    }

    /// Waits until there is another one, and has been for two looks: it may be on its way there.
    pub(crate) async fn changed(path: &Path, before: Option<Self>) -> Self {
        let mut last = before;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = Self::at(path);
            if let Some(now) = now.filter(|_| now == last && now != before) {
                return now;
            }
            last = now;
        }
    }
}

/// Has an Envoy that another took over from finish what it has begun, and end. `socket`: where it answers.
pub(crate) async fn retire(mut process: Process, socket: PathBuf) {
    let began = Instant::now();
    if let Err(e) = admin::drain(&socket).await {
        tracing::warn!("Envoy {} is not told to drain: {e}", process.id());
    }
    let finished = async {
        tokio::time::sleep(STOPS_LISTENING).await;
        while began.elapsed() < RETIRED_WITHIN {
            if matches!(admin::open_connections(&socket).await, Ok(0) | Err(_)) {
                return;
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        tracing::warn!("Envoy {} still has connections: they end", process.id());
    };
    finished.await;
    process.signal(Signal::TERM);
    if tokio::time::timeout(END_WITHIN, process.ended())
        .await
        .is_err()
    {
        process.signal(Signal::KILL);
        let _ = process.ended().await;
    }
    let _ = fs::remove_file(&socket);
    tracing::info!(
        "Envoy {} has ended, {:?} after it was replaced",
        process.id(),
        began.elapsed()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_is_another_binary() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("envoy"), folder.path().join("new"));
        assert_eq!(Binary::at(&path), None);
        fs::write(&path, "same").expect("a file");
        fs::write(&other, "same").expect("a file");
        let before = Binary::at(&path);
        assert_eq!(before, Binary::at(&path));
        fs::rename(&other, &path).expect("another file");
        assert_ne!(before, Binary::at(&path));
    }
}
