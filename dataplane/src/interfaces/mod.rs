//! Which interface of this node leads to which local pod, and which addresses are the node's own.
//!
//! A task looks for the host side of each wanted pod's interface in the agent's own network namespace, attaches the pod programs to
//! it, and then publishes it. So whoever reads [`LocalInterfaces`] may rely on this order:
//!
//! 1. The programs are on the interface before its address appears in [`LocalInterfaces::pods`]. Until the interface has an entry in
//!    `local_workloads` the kernel refuses whatever crosses it (`REASON_NOT_READY`), so a pod is never open by accident.
//! 2. The programs leave an interface only after its pods are no longer wanted ([`WantedPods`]), and then its addresses disappear
//!    from [`LocalInterfaces::pods`]. An interface that is gone takes its programs with it.
//! 3. Until [`LocalInterfaces::settled`], an address that is missing may only not have been looked for yet: what an earlier agent
//!    wrote for it stays.

mod book;
mod ends;
mod find;
mod follow;
mod notices;
mod peer;
mod report;
mod scan;
pub(crate) mod snapshot;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::num::NonZeroU32;

use tokio::sync::watch;
use weft_proto::model::{Workload, WorkloadKind};

pub(crate) use ends::OtherEnds;
pub use find::Missing;
pub(crate) use follow::{Follower, follow};
pub use report::{MissingPod, PodAttachment, Report};
pub use task::{Interfaces, Outlook};

/// Index of an interface in the agent's network namespace, as `skb->ifindex` has it on the interface itself.
///
/// The kernel may give the index of a deleted interface to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceIndex(pub NonZeroU32);

impl InterfaceIndex {
    /// The index as the kernel's tables have it.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// Local pods whose interfaces are to be found: those of this node that have addresses of their own, in the mesh or out of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedPods {
    /// Address to the name of its Workload resource.
    pub addresses: BTreeMap<IpAddr, String>,
    /// Those of them whose connections are to stay with TCP.
    pub unaccelerated: BTreeSet<IpAddr>,
    /// Endpoints of services whose connections are to stay with TCP, of whatever node.
    pub behind_unaccelerated: BTreeSet<IpAddr>,
    /// The list is known to be whole. Nothing is detached before: an earlier agent's pods may still be named.
    pub complete: bool,
}

impl WantedPods {
    /// Those of `workloads` that have an interface of their own on `node`: all that are in the mesh, or all that are `out` of it.
    #[must_use]
    pub fn of<'a>(
        workloads: impl IntoIterator<Item = &'a Workload>,
        node: &str,
        out: bool,
        complete: bool,
    ) -> Self {
        let mut wanted = Self {
            complete,
            ..Self::default()
        };
        for workload in workloads {
            let alone = workload.kind == WorkloadKind::Pod && !workload.host_network;
            if !alone || workload.out_of_mesh != out || workload.node != node {
                continue;
            }
            for address in &workload.addresses {
                wanted.addresses.insert(*address, workload.name.clone());
                if workload.unaccelerated {
                    wanted.unaccelerated.insert(*address);
                }
            }
        }
        wanted
    }
}

/// The programs that judge what crosses a pod's interface. They and their maps work on when this is dropped.
pub trait PodPrograms: Send {
    /// Puts them on both directions of an interface, in place of an earlier agent's; does nothing where they are already.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn attach(&mut self, interface: InterfaceIndex) -> io::Result<()>;

    /// Takes them off. An interface that is gone, or has none, is no error.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn detach(&mut self, interface: InterfaceIndex) -> io::Result<()>;

    /// Interfaces that have them, or had them when an earlier agent last looked.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn attached(&mut self) -> io::Result<BTreeSet<InterfaceIndex>>;

    /// How they are attached, for people: `tcx` or `clsact`.
    fn hook(&self) -> &'static str;
}

/// What is known about this node's interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalInterfaces {
    /// Host side of the interface of each wanted address that was found and has its programs. One interface never leads to two
    /// workloads here: such ones are refused with a reason in `weft status`.
    pub pods: BTreeMap<IpAddr, InterfaceIndex>,
    /// Every address of every interface in the agent's network namespace: loopback, link-local and bridges' as well.
    pub host: BTreeSet<IpAddr>,
    /// A complete list of wanted pods has been looked for at least once.
    pub settled: bool,
}

/// Where the current [`LocalInterfaces`] are read, and changes are waited for.
pub type InterfacesReceiver = watch::Receiver<LocalInterfaces>;

/// Where the wanted pods are read.
pub type WantedReceiver = watch::Receiver<WantedPods>;
