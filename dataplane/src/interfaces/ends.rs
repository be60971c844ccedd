//! Network namespaces at the other ends of interfaces: those of the pods that the interfaces lead to.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::sync::Arc;

use super::InterfaceIndex;
use super::snapshot::Kernel;
use crate::netns::PeerNamespaces;

/// Opens them.
pub(crate) struct OtherEnds {
    kernel: Kernel,
    namespaces: PeerNamespaces,
}

impl OtherEnds {
    /// For interfaces of the caller's network namespace.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            kernel: Kernel::open()?,
            namespaces: PeerNamespaces::new()?,
        })
    }

    /// Opens those that can be found. Not to be kept open: a reference would keep a dead pod's namespace alive.
    pub(crate) fn open(
        &mut self,
        wanted: &BTreeSet<InterfaceIndex>,
    ) -> io::Result<BTreeMap<InterfaceIndex, Arc<File>>> {
        if wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let interfaces = self.kernel.interfaces()?;
        let peers: BTreeMap<InterfaceIndex, i32> = wanted
            .iter()
            .filter_map(|index| Some((*index, interfaces.get(index)?.peer_netns?)))
            .collect();
        let ids: HashSet<i32> = peers.values().copied().collect();
        let open = self.namespaces.open(&ids).into_iter();
        let open: BTreeMap<i32, Arc<File>> = open.map(|(id, file)| (id, Arc::new(file))).collect();
        Ok(peers
            .into_iter()
            .filter_map(|(index, id)| Some((index, Arc::clone(open.get(&id)?))))
            .collect())
    }
}
