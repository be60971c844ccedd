//! Finds the sockets that are to be closed, in all network namespaces at once.

use std::io::{self, Read};
use std::net::SocketAddr;

use libbpf_rs::{Iter, Link};
use weft_proto::model::Protocol;

use crate::bpf::{from_bytes, types};
use crate::tables::address;

/// A socket that is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosingSocket {
    /// Its own side.
    pub local: SocketAddr,
    /// Its peer's.
    pub remote: SocketAddr,
    /// IANA protocol number.
    pub protocol: u8,
}

impl ClosingSocket {
    pub(super) fn is_tcp(&self) -> bool {
        self.protocol == Protocol::Tcp.number()
    }
}

/// The iterators over what sockets remember.
pub struct Finder {
    /// Links of `weft_find_tcp`, over each map with TCP connections, and `weft_find_udp`.
    links: [Link; 3],
}

impl Finder {
    /// A finder over iterator links of `weft_find_tcp` and `weft_find_udp`.
    #[must_use]
    pub const fn new(links: [Link; 3]) -> Self {
        Self { links }
    }

    /// All sockets to be closed now, with the inode numbers of their network namespaces.
    ///
    /// # Errors
    /// When an iterator cannot be opened or read.
    pub fn find(&self) -> io::Result<Vec<(u32, ClosingSocket)>> {
        let mut bytes = Vec::new();
        for link in &self.links {
            Iter::new(link)
                .map_err(|e| io::Error::other(e.to_string()))?
                .read_to_end(&mut bytes)?;
        }
        Ok(bytes
            .chunks_exact(size_of::<types::closing_socket>())
            .filter_map(from_bytes::<types::closing_socket>)
            .map(|raw| (raw.netns, ClosingSocket::from(raw)))
            .collect())
    }
}

impl From<types::closing_socket> for ClosingSocket {
    fn from(raw: types::closing_socket) -> Self {
        let endpoint = |addr, port| SocketAddr::new(address::from_raw(addr), u16::from_be(port));
        Self {
            local: endpoint(raw.local, raw.local_port),
            remote: endpoint(raw.remote, raw.remote_port),
            protocol: raw.protocol as u8,
        }
    }
}
