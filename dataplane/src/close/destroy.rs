//! Destroys found sockets, namespace by namespace.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};

use libbpf_rs::{Iter, Link};

use super::{ClosingSocket, netlink, netns};

/// How sockets are destroyed here.
pub enum Destroyer {
    /// Iterators that call `bpf_sock_destroy`, over TCP and over UDP sockets; they select by what
    /// each socket remembers, exactly.
    Iterators {
        /// `weft_close_tcp`
        tcp: Link,
        /// `weft_close_udp`
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
    /// Destroys these sockets; returns what went wrong. A namespace that is gone took its sockets with it.
    pub fn destroy(&self, found: &[ClosingSocket]) -> Vec<DestroyError> {
        let mut by_netns: HashMap<u32, Vec<&ClosingSocket>> = HashMap::new();
        for socket in found {
            by_netns.entry(socket.netns).or_default().push(socket);
        }
        let wanted: HashSet<u32> = by_netns.keys().copied().collect();
        let open = netns::open(&wanted);
        by_netns
            .into_iter()
            .filter_map(|(netns, sockets)| {
                let namespace = open.get(&netns)?;
                netns::within(namespace, || self.destroy_here(&sockets))
                    .err()
                    .map(|source| DestroyError { netns, source })
            })
            .collect()
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
