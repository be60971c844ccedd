//! The folder where the CA's certificates and keys are.
//!
//! | file | |
//! |---|---|
//! | `root.pem` | the root; all certificates in it are trusted |
//! | `root-key.pem` | its key, needed only to make intermediates; may be kept elsewhere |
//! | `intermediate.pem` | what issues, and what leads from it to a root |
//! | `intermediate-key.pem` | its key |
//! | `next-root.pem`, `next-root-key.pem` | a root that is trusted already and issues later |
//! | `old-roots.pem` | roots that issue no more and are trusted until what they have issued has ended |
//!
//! A certificate and its key are two files: between writing the one and the other the new key is in `…-key.pem.new`, and whichever key fits
//! is taken. So no crash leaves a CA without its key.

mod store;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rcgen::KeyPair;
use weft_identity::certificate::{Certificate, CertificateError};

pub(super) use store::Lock;

use super::check::{self, Unfit};

/// No certificate or key is longer.
const MAX_FILE: u64 = 1 << 20;

/// Why a CA's folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system refuses.
    #[error("CA file {path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// Everybody may look.
    #[error(
        "CA {what} {path} is open to others than its owner (mode {mode:03o}): chmod {wanted:03o} {path}"
    )]
    Open {
        /// "folder" or "key".
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// As it is.
        mode: u32,
        /// As it has to be.
        wanted: u32,
    },
    /// One that has to be there.
    #[error("CA file {path} is missing: {why}")]
    Missing {
        /// Which.
        path: PathBuf,
        /// What it is for.
        why: &'static str,
    },
    /// Not PEM certificates.
    #[error("CA file {path}: {source}")]
    Certificate {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: CertificateError,
    },
    /// Not a key.
    #[error(
        "CA key {path} is not a private key in PKCS #8 PEM ({reason}): `openssl pkcs8 -topk8 -nocrypt` makes one of other forms"
    )]
    Key {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A certificate that cannot serve.
    #[error("CA file {path}: {source}")]
    Unfit {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: Unfit,
    },
}

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// At `path`; made if it is not there.
    pub(super) fn open(path: &Path) -> Result<Self, FolderError> {
        let folder = Self {
            path: path.to_owned(),
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|source| folder.io(path, source))?;
        let mode = fs::metadata(path).map_err(|source| folder.io(path, source))?;
        let mode = mode.permissions().mode() & 0o777;
        // What nobody can write to, as a mounted Secret, is protected by its keys' modes.
        if mode & 0o077 != 0 && !folder.is_read_only() {
            return Err(FolderError::Open {
                what: "folder",
                path: path.to_owned(),
                mode,
                wanted: 0o700,
            });
        }
        Ok(folder)
    }

    /// On a file system that is mounted so.
    fn is_read_only(&self) -> bool {
        rustix::fs::statvfs(&self.path)
            .is_ok_and(|fs| fs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
    }

    /// Path of a file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn io(&self, path: &Path, source: io::Error) -> FolderError {
        FolderError::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// A file's content; `None` when there is none.
    fn read(&self, name: &str, secret: bool) -> Result<Option<Vec<u8>>, FolderError> {
        let path = self.file(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.io(&path, source)),
        };
        let metadata = file.metadata().map_err(|source| self.io(&path, source))?;
        let mode = metadata.permissions().mode() & 0o777;
        if secret && mode & 0o077 != 0 {
            return Err(FolderError::Open {
                what: "key",
                path,
                mode,
                wanted: 0o600,
            });
        }
        let mut content = Vec::new();
        let read = file.take(MAX_FILE).read_to_end(&mut content);
        read.map_err(|source| self.io(&path, source))?;
        Ok(Some(content))
    }

    /// Certificates of a file; `None` when it is not there.
    pub(super) fn certificates(&self, name: &str) -> Result<Option<Vec<Certificate>>, FolderError> {
        let Some(content) = self.read(name, false)? else {
            return Ok(None);
        };
        let all = Certificate::all(&content).map_err(|source| FolderError::Certificate {
            path: self.file(name),
            source,
        })?;
        Ok(Some(all))
    }

    /// The key of `certificate`, in `name` or beside it; `None` when there is none.
    pub(super) fn key(
        &self,
        name: &str,
        certificate: &Certificate,
    ) -> Result<Option<KeyPair>, FolderError> {
        let mut unfit = None;
        for name in [name.to_owned(), format!("{name}.new")] {
            let Some(content) = self.read(&name, true)? else {
                continue;
            };
            let path = self.file(&name);
            let text = String::from_utf8_lossy(&content);
            let key = KeyPair::from_pem(&text).map_err(|e| FolderError::Key {
                path: path.clone(),
                reason: e.to_string(),
            })?;
            match check::key(certificate, &key) {
                Ok(()) => return Ok(Some(key)),
                Err(source) => unfit = unfit.or(Some(FolderError::Unfit { path, source })),
            }
        }
        unfit.map_or(Ok(None), Err)
    }

    /// Writes a file in one step.
    fn write(&self, name: &str, content: &[u8], mode: u32) -> Result<(), FolderError> {
        let path = self.file(name);
        let beside = self.file(&format!("{name}.tmp"));
        let written = (|| {
            let _ = fs::remove_file(&beside);
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(&beside)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&beside, &path)?;
            File::open(&self.path)?.sync_all()
        })();
        written.map_err(|source| self.io(&path, source))
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &str) -> Result<(), FolderError> {
        match fs::remove_file(self.file(name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.io(&self.file(name), e)),
            _ => Ok(()),
        }
    }
}
