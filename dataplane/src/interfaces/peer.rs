//! The other way round: which addresses does each interface's other end have?
//!
//! For pods to which no host route leads, and whose neighbour entry or forwarding entry is not there either: a quiet pod on a bridge,
//! a subnet on a pair of its own, a CNI that delivers by programs of its own. Costs a look into each pod's namespace, so it comes second.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::IpAddr;

use super::InterfaceIndex;
use super::snapshot::{Interface, Kernel};
use crate::netns::{self, PeerNamespaces};

/// Addresses of the other ends of all interfaces that have one in another namespace. An address that several have is left out.
pub(super) fn addresses(
    namespaces: &mut PeerNamespaces,
    interfaces: &BTreeMap<InterfaceIndex, Interface>,
) -> BTreeMap<IpAddr, InterfaceIndex> {
    let ends: HashMap<(i32, u32), InterfaceIndex> = interfaces
        .iter()
        .filter_map(|(index, i)| Some(((i.peer_netns?, i.lower?), *index)))
        .collect();
    let wanted: HashSet<i32> = ends.keys().map(|(netns, _)| *netns).collect();
    let mut found: BTreeMap<IpAddr, Option<InterfaceIndex>> = BTreeMap::new();
    for (id, namespace) in namespaces.open(&wanted) {
        let inside = netns::within(&namespace, inside);
        for (end, address) in inside.unwrap_or_default() {
            if let Some(index) = ends.get(&(id, end)) {
                found
                    .entry(address)
                    .and_modify(|only| *only = None)
                    .or_insert(Some(*index));
            }
        }
    }
    found
        .into_iter()
        .filter_map(|(address, only)| Some((address, only?)))
        .collect()
}

fn inside() -> io::Result<Vec<(u32, IpAddr)>> {
    Kernel::open()?.addresses()
}
