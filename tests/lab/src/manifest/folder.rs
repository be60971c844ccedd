//! The folder of manifests that control planes watch.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::{LabError, Result};

/// A watched folder. Files appear in it complete or not at all.
#[derive(Debug, Clone)]
pub struct Manifests {
    dir: PathBuf,
}

impl Manifests {
    /// A folder that exists.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The folder, for `--manifests`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes `NAME.yaml`, or replaces it in one step.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        // No `.yaml` at the end of the temporary name: a watcher must not read it.
        let temporary = self.dir.join(format!(".{name}.partial"));
        let path = self.path(name);
        fs::write(&temporary, text).map_err(LabError::io("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(LabError::io("rename to", path))
    }

    /// Removes `NAME.yaml`; one that is not there is fine.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(LabError::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Copies every `*.yaml` of another folder into this one.
    ///
    /// # Errors
    /// When the other folder cannot be read or a file not written.
    pub fn copy_from(&self, source: &Path) -> Result<()> {
        for entry in fs::read_dir(source).map_err(LabError::io("list", source))? {
            let path = entry.map_err(LabError::io("list", source))?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
                && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
            {
                let text = fs::read_to_string(&path).map_err(LabError::io("read", &path))?;
                self.write(name, &text)?;
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.yaml"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_and_removed_and_no_partial_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Manifests::new(dir.path());
        folder.write("web", "one").unwrap();
        folder.write("web", "two").unwrap();
        let names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert_eq!(names, ["web.yaml"]);
        assert_eq!(
            fs::read_to_string(dir.path().join("web.yaml")).unwrap(),
            "two"
        );
        folder.remove("web").unwrap();
        folder.remove("web").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
