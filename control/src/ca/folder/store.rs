//! Writing to the folder: one process at a time, and nothing half done.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{FlockOperation, flock};
use weft_identity::certificate::{Certificate, to_pem};

use super::{Folder, FolderError};
use crate::ca::make::Made;

/// Held while the folder is changed: control planes may share it.
pub(in crate::ca) struct Lock(#[allow(dead_code)] File);

impl Folder {
    /// Waits until nobody else changes the folder.
    pub(in crate::ca) fn lock(&self) -> Result<Lock, FolderError> {
        let path = self.file("lock");
        let locked = (|| {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(Lock(file))
        })();
        locked.map_err(|source| self.io(&path, source))
    }

    /// Writes certificates.
    pub(in crate::ca) fn save<'a>(
        &self,
        name: &str,
        all: impl IntoIterator<Item = &'a Certificate>,
        _: &Lock,
    ) -> Result<(), FolderError> {
        let pem = to_pem(all.into_iter().map(|c| &c.der));
        self.write(name, pem.as_bytes(), 0o644)
    }

    /// Writes `NAME.pem` and `NAME-key.pem` such that one that reads meanwhile, or after a crash, finds a key that fits.
    pub(in crate::ca) fn save_pair(
        &self,
        name: &str,
        made: &Made,
        lock: &Lock,
    ) -> Result<(), FolderError> {
        let (key, new) = (format!("{name}-key.pem"), format!("{name}-key.pem.new"));
        self.write(&new, made.key.serialize_pem().as_bytes(), 0o600)?;
        self.save(&format!("{name}.pem"), [&made.certificate], lock)?;
        let renamed = fs::rename(self.file(&new), self.file(&key));
        renamed.map_err(|source| self.io(&self.file(&key), source))
    }
}
