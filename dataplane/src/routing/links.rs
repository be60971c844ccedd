//! Keeps `pod_links`: how frames to each local pod begin.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use tokio_util::sync::CancellationToken;

use crate::accel::PodInterface;
use crate::bpf::{Record, types};
use crate::interfaces::snapshot::{Interface, Kernel, Kind};
use crate::interfaces::{
    Follower, InterfaceIndex, InterfacesReceiver, LocalInterfaces, OtherEnds, WantedPods,
    WantedReceiver, follow,
};
use crate::netns;
use crate::tables::{Table, TableError};

/// Value of `pod_links`: the Ethernet addresses of frames to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodLink {
    /// The pod's end.
    pub to: [u8; 6],
    /// The host's end.
    pub from: [u8; 6],
}

impl Record for PodLink {
    type Raw = types::pod_link;

    fn to_raw(&self) -> Self::Raw {
        types::pod_link {
            to: self.to,
            from: self.from,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            to: raw.to,
            from: raw.from,
        })
    }
}

/// The task that fills the table.
pub struct Links {
    table: Box<dyn Table<PodInterface, PodLink>>,
    kernel: Kernel,
    ends: OtherEnds,
    known: BTreeMap<PodInterface, PodLink>,
}

impl Links {
    /// For the network namespace of the caller. Takes over what an earlier agent has written.
    ///
    /// # Errors
    /// When a netlink socket is refused, or the table cannot be read.
    pub fn new(table: Box<dyn Table<PodInterface, PodLink>>) -> io::Result<Self> {
        let known = table.entries().map_err(io::Error::other)?;
        Ok(Self {
            table,
            kernel: Kernel::open()?,
            ends: OtherEnds::new()?,
            known: known.into_iter().collect(),
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

    fn try_look(&mut self, local: &LocalInterfaces) -> io::Result<bool> {
        let wanted: BTreeSet<InterfaceIndex> = local.pods.values().copied().collect();
        // Before the first complete search, a pod that is missing may only not have been looked for.
        if local.settled {
            self.forget(&wanted).map_err(io::Error::other)?;
        }
        let interfaces = self.kernel.interfaces()?;
        // An index may be another interface's by now; then its address is, too.
        let fresh: BTreeMap<InterfaceIndex, &Interface> = wanted
            .iter()
            .filter_map(|index| Some((*index, interfaces.get(index)?)))
            .filter(|(_, interface)| interface.kind == Kind::Pair)
            .filter(|(index, interface)| {
                let known = self.known.get(&PodInterface(*index));
                known.map(|link| link.from) != interface.address
            })
            .collect();
        let open = self.ends.open(&fresh.keys().copied().collect())?;
        let mut found = Vec::new();
        for (index, namespace) in &open {
            let Some(interface) = fresh.get(index) else {
                continue;
            };
            let end = netns::within(namespace, || far_address(interface.lower))?;
            if let (Some(to), Some(from)) = (end, interface.address) {
                found.push((PodInterface(*index), PodLink { to, from }));
            }
        }
        self.table.write(&found).map_err(io::Error::other)?;
        let complete = found.len() == fresh.len();
        self.known.extend(found);
        Ok(complete)
    }

    fn forget(&mut self, wanted: &BTreeSet<InterfaceIndex>) -> Result<(), TableError> {
        let known = self.known.keys().copied();
        let gone: Vec<PodInterface> = known.filter(|pod| !wanted.contains(&pod.0)).collect();
        self.table.delete(&gone)?;
        self.known.retain(|pod, _| wanted.contains(&pod.0));
        Ok(())
    }
}

/// The address of an interface of this thread's network namespace.
fn far_address(index: Option<u32>) -> io::Result<Option<[u8; 6]>> {
    let interfaces = Kernel::open()?.interfaces()?;
    let found = interfaces.into_iter().find(|(i, _)| Some(i.get()) == index);
    Ok(found.and_then(|(_, interface)| interface.address))
}

impl Follower for Links {
    /// Writes what is found; false if some pod's end was not, or the table did not take it.
    fn look(&mut self, local: &LocalInterfaces, _: &WantedPods) -> bool {
        match self.try_look(local) {
            Ok(complete) => complete,
            Err(e) => {
                tracing::warn!("packets of new pods go by the node's stack for now: {e}");
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
        let link = PodLink {
            to: [2, 0, 0, 0, 0, 1],
            from: [2, 0, 0, 0, 0, 2],
        };
        assert_eq!(PodLink::from_raw(link.to_raw()), Some(link));
    }
}
