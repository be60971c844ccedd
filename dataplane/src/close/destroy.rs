//! Destroys found sockets, namespace by namespace.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};

use libbpf_rs::{Iter, Link};

use super::{ClosingSocket, netlink};
use crate::netns;

/// How sockets are destroyed here.
pub enum Destroyer {
    /// Iterators that call `bpf_sock_destroy`; they select by themselves, exactly.
    Iterators {
        /// Over TCP sockets.
        tcp: Link,
        /// Over UDP sockets.
        udp: Link,
    },
    /// `SOCK_DESTROY` by addresses and ports.
    Netlink,
}

/// A namespace whose sockets could not be closed.
#[derive(Debug, thiserror::Error)]
#[error("network namespace {netns}: {source}")]
pub struct DestroyError {
    netns: u32,
    source: io::Error,
}

impl Destroyer {
    /// Destroys these sockets, each in the namespace of that inode number; returns what went wrong. A namespace that is gone took its sockets with it.
    pub fn destroy(&self, found: &[(u32, ClosingSocket)]) -> Vec<DestroyError> {
        let mut by_netns: HashMap<u32, Vec<&ClosingSocket>> = HashMap::new();
        for (netns, socket) in found {
            by_netns.entry(*netns).or_default().push(socket);
        }
        let wanted: HashSet<u32> = by_netns.keys().copied().collect();
        let open = netns::open(&wanted);
        by_netns
            .into_iter()
            .filter_map(|(netns, sockets)| {
                let namespace = open.get(&netns)?;
                self.destroy_in(namespace, &sockets)
                    .err()
                    .map(|source| DestroyError { netns, source })
            })
            .collect()
    }

    /// Destroys these sockets of one namespace.
    pub(super) fn destroy_in(
        &self,
        namespace: &File,
        sockets: &[&ClosingSocket],
    ) -> io::Result<()> {
        netns::within(namespace, || self.destroy_here(sockets))
    }

    fn destroy_here(&self, sockets: &[&ClosingSocket]) -> io::Result<()> {
        match self {
            Self::Iterators { tcp, udp } => {
                if sockets.iter().any(|s| s.is_tcp()) {
                    run(tcp)?;
                }
                if sockets.iter().any(|s| !s.is_tcp()) {
                    run(udp)?;
                }
                Ok(())
            }
            Self::Netlink => netlink::destroy(sockets),
        }
    }
}

/// Runs an iterator to its end; it sees the namespace of this thread.
fn run(link: &Link) -> io::Result<()> {
    let mut iter = Iter::new(link).map_err(|e| io::Error::other(e.to_string()))?;
    io::copy(&mut iter.by_ref(), &mut io::sink()).map(drop)
}
