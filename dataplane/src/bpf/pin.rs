//! Where maps and links are pinned.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::statfs;

/// `BPF_FS_MAGIC` of linux/magic.h.
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
const ABI: &str = env!("WEFT_ABI");

/// Why pins cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The path is on another kind of file system.
    #[error(
        "no BPF file system at {path}: run `mount -t bpf bpf {mount}`, or give a directory of one with --bpffs"
    )]
    NotBpffs {
        /// As configured.
        path: String,
        /// Where one is usually mounted.
        mount: String,
    },
    /// Any file operation.
    #[error("{path}: {source}{}", hint(source))]
    Io {
        /// What was touched.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ": run as root",
        _ => "",
    }
}

impl PinError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { path, source }
    }
}

/// `<bpffs>/<ABI hash>`: a layout of maps shares its directory only with itself.
#[derive(Clone, Debug)]
pub struct PinDir {
    root: PathBuf,
}

impl PinDir {
    /// The directory for this build's ABI under `root`, made if it is missing.
    ///
    /// # Errors
    /// When `root` is not on a BPF file system, or may not be written.
    pub fn create(root: &Path) -> Result<Self, PinError> {
        let existing = root.ancestors().find(|p| p.exists()).unwrap_or(root);
        if !is_bpffs(existing)? {
            return Err(PinError::NotBpffs {
                path: root.display().to_string(),
                mount: root.parent().unwrap_or(root).display().to_string(),
            });
        }
        let dir = Self::at(root);
        for sub in [dir.maps(), dir.links()] {
            fs::create_dir_all(&sub).map_err(PinError::io(&sub))?;
        }
        Ok(dir)
    }

    /// The directory for this build's ABI under `root`, whether it is there or not.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    pub(super) fn maps(&self) -> PathBuf {
        self.root.join(ABI).join("maps")
    }

    pub(super) fn links(&self) -> PathBuf {
        self.root.join(ABI).join("links")
    }

    /// Directories of other ABIs: left by another version of the agent.
    pub(super) fn others(&self) -> Result<Vec<PathBuf>, PinError> {
        Ok(self
            .abi_dirs()?
            .into_iter()
            .filter(|dir| dir.file_name().is_some_and(|name| name != ABI))
            .collect())
    }

    /// All directories that some version of the agent made.
    pub(super) fn abi_dirs(&self) -> Result<Vec<PathBuf>, PinError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(PinError::io(&self.root)(e)),
        };
        Ok(entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.join("links").is_dir() || path.join("maps").is_dir())
            .collect())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}

fn is_bpffs(path: &Path) -> Result<bool, PinError> {
    let stat = statfs(path).map_err(|e| PinError::io(path)(e.into()))?;
    Ok(stat.f_type == BPF_FS_MAGIC)
}
