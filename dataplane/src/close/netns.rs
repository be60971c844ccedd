//! Network namespaces by inode number.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Opens those of the namespaces `wanted` that a process or a name under `/run/netns` leads to.
///
/// Not kept open beyond the caller's use: a reference would keep a dead pod's namespace alive.
pub(super) fn open(wanted: &HashSet<u32>) -> HashMap<u32, File> {
    let mut found = HashMap::new();
    for path in candidates() {
        if found.len() == wanted.len() {
            break;
        }
        let Ok(inode) = fs::metadata(&path).map(|m| m.ino()) else {
            continue; // The process ended meanwhile, or is a zombie.
        };
        if let Ok(inode) = u32::try_from(inode)
            && wanted.contains(&inode)
            && !found.contains_key(&inode)
            && let Ok(file) = File::open(&path)
        {
            found.insert(inode, file);
        }
    }
    found
}

fn candidates() -> impl Iterator<Item = PathBuf> {
    let entries = |dir| fs::read_dir(dir).into_iter().flatten().flatten();
    let named = entries("/run/netns").map(|e| e.path());
    let processes = entries("/proc")
        .filter(|e| {
            e.file_name()
                .as_encoded_bytes()
                .first()
                .is_some_and(u8::is_ascii_digit)
        })
        .map(|e| e.path().join("ns/net"));
    // Names first, as there are fewer.
    named.chain(processes)
}

/// Runs `work` inside the namespace, on a thread of its own that ends with it.
pub(super) fn within<T: Send>(
    namespace: &File,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                work()
            })
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread inside the namespace panicked")))
    })
}
