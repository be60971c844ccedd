//! Network namespaces: found by inode number or by the number that this one has for them, and entered.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::netlink::Client;

/// Opens those of the namespaces `wanted`, by inode number, that a process or a name under `/run/netns` leads to.
///
/// Not kept open beyond the caller's use: a reference would keep a dead pod's namespace alive.
pub(crate) fn open(wanted: &HashSet<u32>) -> HashMap<u32, File> {
    let mut found = HashMap::new();
    for (inode, path) in candidates() {
        if found.len() == wanted.len() {
            break;
        }
        if let Ok(inode) = u32::try_from(inode)
            && wanted.contains(&inode)
            && let Ok(file) = File::open(&path)
        {
            found.insert(inode, file);
        }
    }
    found
}

/// Finds namespaces by the numbers that this thread's namespace has for them (`IFLA_LINK_NETNSID`), and remembers where they were.
pub(crate) struct PeerNamespaces {
    client: Client<RouteNetlinkMessage>,
    paths: HashMap<i32, PathBuf>,
}

impl PeerNamespaces {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            client: Client::open(NETLINK_ROUTE)?,
            paths: HashMap::new(),
        })
    }

    /// Opens those of the namespaces `wanted` that can be found. Not to be kept open, as with [`open`].
    pub(crate) fn open(&mut self, wanted: &HashSet<i32>) -> HashMap<i32, File> {
        let mut found = self.open_remembered(wanted);
        if found.len() == wanted.len() {
            return found;
        }
        for (_, path) in candidates() {
            let Some((id, file)) = self.identify(&path) else {
                continue;
            };
            if wanted.contains(&id) && !found.contains_key(&id) {
                self.paths.insert(id, path);
                found.insert(id, file);
                if found.len() == wanted.len() {
                    break;
                }
            }
        }
        found
    }

    fn open_remembered(&mut self, wanted: &HashSet<i32>) -> HashMap<i32, File> {
        let mut found = HashMap::new();
        for id in wanted {
            let Some(path) = self.paths.get(id).cloned() else {
                continue;
            };
            // The process may have ended, and its number gone to another one.
            match self.identify(&path) {
                Some((now, file)) if now == *id => {
                    found.insert(*id, file);
                }
                _ => {
                    self.paths.remove(id);
                }
            }
        }
        found
    }

    fn identify(&mut self, path: &PathBuf) -> Option<(i32, File)> {
        let file = File::open(path).ok()?;
        let mut query = NsidMessage::default();
        let fd = u32::try_from(file.as_raw_fd()).ok()?;
        query.attributes.push(NsidAttribute::Fd(fd));
        let query = RouteNetlinkMessage::GetNsId(query);
        match self.client.request(query, 0).ok()?? {
            RouteNetlinkMessage::NewNsId(answer) => {
                let id = answer.attributes.into_iter().find_map(|a| match a {
                    NsidAttribute::Id(id) => Some(id),
                    _ => None,
                })?;
                // Below zero: this namespace has no number for that one.
                (id >= 0).then_some((id, file))
            }
            _ => None,
        }
    }
}

/// Inode numbers of all namespaces that something leads to, each once, and what leads there.
fn candidates() -> impl Iterator<Item = (u64, PathBuf)> {
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
    let mut seen = HashSet::new();
    // Names first, as there are fewer.
    named.chain(processes).filter_map(move |path| {
        // The process may have ended meanwhile, or be a zombie.
        let inode = fs::metadata(&path).ok()?.ino();
        seen.insert(inode).then_some((inode, path))
    })
}

/// Runs `work` inside the namespace, on a thread of its own that ends with it.
pub(crate) fn within<T: Send>(
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
