//! The trust bundle as a file, for agents of other machines.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use weft_identity::TrustBundle;

use super::Authority;

/// A bundle that is not written.
#[derive(Debug, thiserror::Error)]
#[error("CA bundle {path}: {source}")]
pub struct PublishError {
    path: PathBuf,
    source: io::Error,
}

impl Authority {
    /// Writes the bundle to `path`, now and whenever it changes, until `drain` is cancelled.
    ///
    /// # Errors
    /// When it cannot be written now. Later, that is logged.
    pub fn publish(
        self: &Arc<Self>,
        path: PathBuf,
        drain: CancellationToken,
    ) -> Result<(), PublishError> {
        let mut bundle = self.bundle();
        let write = |bundle: &TrustBundle, path: &Path| {
            write(path, &bundle.pem()).map_err(|source| PublishError {
                path: path.to_owned(),
                source,
            })
        };
        write(&bundle.borrow_and_update(), &path)?;
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = drain.cancelled() => return,
                    changed = bundle.changed() => if changed.is_err() { return },
                }
                if let Err(e) = write(&bundle.borrow_and_update(), &path) {
                    tracing::error!(
                        "{e}: agents that start anew may not find the control plane trustworthy"
                    );
                }
            }
        });
        Ok(())
    }
}

/// In one step: who reads meanwhile reads the old one or the new one.
fn write(path: &Path, pem: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&beside)?;
    file.write_all(pem.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}
