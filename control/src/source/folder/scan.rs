//! Finding the folder's files.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_proto::model::Problem;

use super::file::{self, Stamp};

const MAX_FOLDERS_DEEP: usize = 16;

/// What is in a folder.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Manifests by their name relative to the folder; no stamp when the file cannot be looked at.
    pub(super) files: BTreeMap<Arc<str>, (PathBuf, Option<Stamp>)>,
    /// Folders in it that cannot be read.
    pub(super) problems: Vec<Problem>,
}

/// Lists all manifests under `root`. Hidden files and folders are passed over, as the mount of a ConfigMap asks for.
///
/// # Errors
/// When `root` itself cannot be read.
pub(super) fn list(root: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let mut seen = HashSet::new();
    let metadata = fs::metadata(root)?;
    seen.insert((metadata.dev(), metadata.ino()));
    let mut folders = vec![(root.to_path_buf(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => return Err(error),
            Err(error) => {
                let name = relative(root, &folder);
                listing
                    .problems
                    .push(file::problem(&name, format!("cannot be read: {error}")));
                continue;
            }
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => {
                    // A folder reached a second time is a loop of links, or would only repeat itself.
                    if depth < MAX_FOLDERS_DEEP && seen.insert((metadata.dev(), metadata.ino())) {
                        folders.push((path, depth + 1));
                    }
                }
                Ok(metadata) if file::is_manifest(&path) => {
                    let stamp = Stamp::of(&metadata);
                    listing.insert(root, path, Some(stamp));
                }
                Err(_) if file::is_manifest(&path) => listing.insert(root, path, None),
                Ok(_) | Err(_) => {}
            }
        }
    }
    Ok(listing)
}

impl Listing {
    fn insert(&mut self, root: &Path, path: PathBuf, stamp: Option<Stamp>) {
        self.files
            .insert(relative(root, &path).into(), (path, stamp));
    }
}

/// The file's name as people see it: relative to the folder.
pub(super) fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned()
}
