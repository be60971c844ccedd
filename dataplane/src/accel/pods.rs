//! Keeps `accel_pods`: in which network namespace each local pod's sockets are; and `accel_namespaces`.
//!
//! An address alone does not say whose socket it is, as whoever may make network namespaces gives addresses there as he likes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;

use tokio_util::sync::CancellationToken;

use crate::bpf::{Record, SocketIterator, types};
use crate::interfaces::{
    Follower, InterfaceIndex, InterfacesReceiver, LocalInterfaces, OtherEnds, WantedPods,
    WantedReceiver, follow, snapshot,
};
use crate::netns;
use crate::tables::{Table, TableError};

use super::namespaces::Namespaces;

/// Key of `accel_pods`: the host side of a pod's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodInterface(pub InterfaceIndex);

/// Value of `accel_pods`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceleratedPod {
    /// Inode number of its network namespace.
    pub netns: u32,
    /// Its owner wants no acceleration.
    pub off: bool,
    /// The owner of a service that it is behind wants none: Envoy's connections to it may be that service's.
    pub off_from_envoy: bool,
}

impl Record for PodInterface {
    type Raw = u32;

    fn to_raw(&self) -> u32 {
        self.0.get()
    }

    fn from_raw(raw: u32) -> Option<Self> {
        snapshot::index(raw).map(Self)
    }
}

impl Record for AcceleratedPod {
    type Raw = types::accel_pod;

    fn to_raw(&self) -> types::accel_pod {
        types::accel_pod {
            netns: self.netns,
            flags: flag(self.off, OFF) | flag(self.off_from_envoy, OFF_FROM_ENVOY),
        }
    }

    fn from_raw(raw: types::accel_pod) -> Option<Self> {
        Some(Self {
            netns: raw.netns,
            off: raw.flags & OFF != 0,
            off_from_envoy: raw.flags & OFF_FROM_ENVOY != 0,
        })
    }
}

const OFF: u32 = types::accel_pod_flags::ACCEL_POD_OFF.0;
const OFF_FROM_ENVOY: u32 = types::accel_pod_flags::ACCEL_POD_OFF_FROM_ENVOY.0;

fn flag(is_set: bool, flag: u32) -> u32 {
    if is_set { flag } else { 0 }
}

/// Interfaces of those pods that have one of these addresses.
fn interfaces(local: &LocalInterfaces, addresses: &BTreeSet<IpAddr>) -> BTreeSet<PodInterface> {
    let pods = local.pods.iter();
    pods.filter(|(address, _)| addresses.contains(address))
        .map(|(_, interface)| PodInterface(*interface))
        .collect()
}

/// The task that fills the table.
pub struct Pods {
    table: Box<dyn Table<PodInterface, AcceleratedPod>>,
    namespaces: Namespaces,
    /// Whether connections within one pod are accelerated.
    loopback: bool,
    listeners: SocketIterator,
    ends: OtherEnds,
    known: BTreeMap<PodInterface, AcceleratedPod>,
    /// Namespaces whose listeners have been looked for.
    searched: BTreeSet<u64>,
}

impl Pods {
    /// For the network namespace of the caller. Takes over what an earlier agent has written.
    ///
    /// # Errors
    /// When a netlink socket is refused, or a table cannot be read.
    pub fn new(
        table: Box<dyn Table<PodInterface, AcceleratedPod>>,
        namespaces: Box<dyn Table<u32, u32>>,
        loopback: bool,
        listeners: SocketIterator,
    ) -> io::Result<Self> {
        let known = table.entries().map_err(io::Error::other)?;
        Ok(Self {
            table,
            namespaces: Namespaces::new(namespaces)?,
            loopback,
            listeners,
            ends: OtherEnds::new()?,
            known: known.into_iter().collect(),
            searched: BTreeSet::new(),
        })
    }

    /// Follows the interfaces until `drain` is cancelled; what is written stays.
    ///
    /// # Errors
    /// When a look panicked.
    pub async fn run(
        self,
        interfaces: InterfacesReceiver,
        wanted: WantedReceiver,
        drain: CancellationToken,
    ) -> io::Result<()> {
        follow(self, interfaces, wanted, drain).await.map(drop)
    }

    fn try_look(&mut self, local: &LocalInterfaces, pods: &WantedPods) -> io::Result<bool> {
        let wanted: BTreeSet<PodInterface> =
            local.pods.values().copied().map(PodInterface).collect();
        let opted_out = interfaces(local, &pods.unaccelerated);
        let behind = interfaces(local, &pods.behind_unaccelerated);
        let open = self.ends.open(&local.pods.values().copied().collect())?;
        let mut found = BTreeMap::new();
        for (interface, file) in &open {
            if let Ok(netns) = u32::try_from(file.metadata()?.ino()) {
                let pod = PodInterface(*interface);
                let off = opted_out.contains(&pod);
                // Before all services are known, one that is missing may only not have been told of.
                let known = self.known.get(&pod).is_none_or(|pod| pod.off_from_envoy);
                let off_from_envoy = behind.contains(&pod) || (!pods.complete && known);
                let value = AcceleratedPod {
                    netns,
                    off,
                    off_from_envoy,
                };
                found.insert(pod, value);
            }
        }
        // Before the first complete search, a pod that is missing may only not have been looked for.
        if local.settled {
            self.forget(&wanted).map_err(io::Error::other)?;
        }
        let fresh: Vec<_> = found
            .iter()
            .filter(|(pod, value)| self.known.get(pod) != Some(value))
            .map(|(pod, value)| (*pod, *value))
            .collect();
        self.table.write(&fresh).map_err(io::Error::other)?;
        self.known.extend(fresh);
        self.find_listeners(&found, open.values().map(AsRef::as_ref))?;
        let within = self.known.values().filter(|_| self.loopback);
        self.namespaces.write(within)?;
        Ok(found.len() == wanted.len())
    }

    fn forget(&mut self, wanted: &BTreeSet<PodInterface>) -> Result<(), TableError> {
        let gone: Vec<PodInterface> = self
            .known
            .keys()
            .filter(|pod| !wanted.contains(pod))
            .copied()
            .collect();
        self.table.delete(&gone)?;
        self.known.retain(|pod, _| wanted.contains(pod));
        Ok(())
    }

    /// Those that listened before the kernel's programs were there.
    fn find_listeners<'a>(
        &mut self,
        found: &BTreeMap<PodInterface, AcceleratedPod>,
        namespaces: impl Iterator<Item = &'a File>,
    ) -> io::Result<()> {
        let listeners = &self.listeners;
        for namespace in namespaces {
            let inode = namespace.metadata()?.ino();
            if !self.searched.contains(&inode) {
                netns::within(namespace, || listeners.run())?;
                self.searched.insert(inode);
            }
        }
        let inodes: BTreeSet<u64> = found.values().map(|pod| pod.netns.into()).collect();
        self.searched.retain(|inode| inodes.contains(inode));
        Ok(())
    }
}

impl Follower for Pods {
    /// Writes what is found; false if some pod's namespace was not, or the table did not take it.
    fn look(&mut self, local: &LocalInterfaces, wanted: &WantedPods) -> bool {
        match self.try_look(local, wanted) {
            Ok(complete) => complete,
            Err(e) => {
                tracing::warn!("pods are not accelerated for now: {e}");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_what_was_meant() {
        for (off, off_from_envoy) in [(false, false), (true, false), (false, true)] {
            let pod = AcceleratedPod {
                netns: 7,
                off,
                off_from_envoy,
            };
            assert_eq!(AcceleratedPod::from_raw(pod.to_raw()), Some(pod));
        }
        assert_eq!(PodInterface::from_raw(0), None);
    }
}
