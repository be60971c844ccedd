//! Closes the connections that a changed policy refuses or that are too old, at those of their ends that are on this node.
//!
//! The kernel's sweep leaves them in map `closing_flows`. Their packets do not pass any more, so the sockets would wait in silence: they are
//! destroyed in the network namespaces of the pods that have the addresses, and in the node's own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weft_proto::model::Protocol;

use super::{ClosingSocket, Destroyer};
use crate::bpf::{Record, types};
use crate::interfaces::snapshot::Kernel;
use crate::interfaces::{InterfacesReceiver, LocalInterfaces};
use crate::netns::PeerNamespaces;
use crate::tables::{Table, address};

/// How often to look when nobody has called: the kernel may refuse a connection with its next packet as well.
const IDLE: Duration = Duration::from_millis(250);
/// Another try, for namespaces that could not be entered.
const RETRY: Duration = Duration::from_millis(100);
/// So often; a flow that is still there after that has no socket that can be reached.
const ATTEMPTS: u32 = 5;
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A connection whose sockets are to be closed: key of `closing_flows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClosingFlow {
    /// Its ends, in the kernel's order.
    pub ends: [SocketAddr; 2],
    /// IANA protocol number.
    pub protocol: u8,
}

impl ClosingFlow {
    fn has_sockets(&self) -> bool {
        [Protocol::Tcp, Protocol::Udp]
            .iter()
            .any(|protocol| protocol.number() == self.protocol)
    }
}

impl Record for ClosingFlow {
    type Raw = types::flow_key;

    fn to_raw(&self) -> types::flow_key {
        types::flow_key {
            addr: self.ends.map(|end| address::to_raw(end.ip())),
            port: self.ends.map(|end| end.port().to_be()),
            protocol: self.protocol,
            ..types::flow_key::default()
        }
    }

    fn from_raw(raw: types::flow_key) -> Option<Self> {
        let end =
            |i: usize| SocketAddr::new(address::from_raw(raw.addr[i]), u16::from_be(raw.port[i]));
        Some(Self {
            ends: [end(0), end(1)],
            protocol: raw.protocol,
        })
    }
}

/// Where an address of this node has its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Home {
    /// This namespace.
    Node,
    /// The one on the other side of a pod's interface, as numbered by this one.
    Pod(i32),
}

/// Empties `closing_flows`.
pub struct FlowCloser {
    flows: Box<dyn Table<ClosingFlow, u32>>,
    destroyer: Destroyer,
    kernel: Kernel,
    namespaces: PeerNamespaces,
    failed: HashMap<ClosingFlow, u32>,
}

impl FlowCloser {
    /// For the network namespace of the caller.
    ///
    /// # Errors
    /// When a netlink socket is refused.
    pub fn new(flows: Box<dyn Table<ClosingFlow, u32>>, destroyer: Destroyer) -> io::Result<Self> {
        Ok(Self {
            flows,
            destroyer,
            kernel: Kernel::open()?,
            namespaces: PeerNamespaces::new()?,
            failed: HashMap::new(),
        })
    }

    /// Closes until `drain` is cancelled: at once when `called`, else within a quarter of a second.
    ///
    /// # Errors
    /// When a pass panicked.
    pub async fn run(
        mut self,
        interfaces: InterfacesReceiver,
        called: Arc<Notify>,
        drain: CancellationToken,
    ) -> io::Result<()> {
        loop {
            let pause = if self.failed.is_empty() { IDLE } else { RETRY };
            tokio::select! {
                () = drain.cancelled() => return Ok(()),
                () = called.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
            let local = interfaces.borrow().clone();
            let pass = tokio::task::spawn_blocking(move || {
                self.pass(&local);
                self
            });
            self = pass.await.map_err(io::Error::other)?;
        }
    }

    fn pass(&mut self, local: &LocalInterfaces) {
        let closing: Vec<ClosingFlow> = match self.flows.entries() {
            Ok(entries) => entries.into_iter().map(|(flow, _)| flow).collect(),
            Err(e) => return tracing::warn!("connections to be closed cannot be read: {e}"),
        };
        if closing.is_empty() {
            self.failed.clear();
            return;
        }
        let failed = match self.close(&closing, local) {
            Ok(failed) => failed,
            Err(e) => {
                tracing::warn!("connections to be closed stay open for now: {e}");
                closing.iter().copied().collect()
            }
        };
        self.forget(&closing, &failed);
    }

    /// Closes what can be reached; returns the others.
    fn close(
        &mut self,
        closing: &[ClosingFlow],
        local: &LocalInterfaces,
    ) -> io::Result<HashSet<ClosingFlow>> {
        let homes = self.homes(local)?;
        let mut sockets: HashMap<Home, Vec<(ClosingFlow, ClosingSocket)>> = HashMap::new();
        for flow in closing.iter().filter(|flow| flow.has_sockets()) {
            let [first, second] = flow.ends;
            for (own, other) in [(first, second), (second, first)] {
                let socket = ClosingSocket {
                    local: own,
                    remote: other,
                    protocol: flow.protocol,
                };
                let home = homes(own.ip());
                // Envoy speaks in the name of pods, from the node's namespace.
                let proxy = home.filter(|home| *home != Home::Node).map(|_| Home::Node);
                for home in home.into_iter().chain(proxy) {
                    sockets.entry(home).or_default().push((*flow, socket));
                }
            }
        }
        let pods = sockets.keys().filter_map(|home| match home {
            Home::Pod(id) => Some(*id),
            Home::Node => None,
        });
        let mut open = self.namespaces.open(&pods.collect());
        let mut failed = HashSet::new();
        for (home, sockets) in sockets {
            let namespace = match home {
                Home::Node => Some(File::open(OWN_NAMESPACE)?),
                // One that nothing leads to any more took its sockets with it.
                Home::Pod(id) => open.remove(&id),
            };
            let Some(namespace) = namespace else { continue };
            let all: Vec<&ClosingSocket> = sockets.iter().map(|(_, socket)| socket).collect();
            if let Err(e) = self.destroyer.destroy_in(&namespace, &all) {
                tracing::warn!("connections to be closed stay open for now: {home:?}: {e}");
                failed.extend(sockets.iter().map(|(flow, _)| *flow));
            }
        }
        Ok(failed)
    }

    /// Tells for each address of this node where its sockets are.
    fn homes<'a>(
        &mut self,
        local: &'a LocalInterfaces,
    ) -> io::Result<impl Fn(IpAddr) -> Option<Home> + use<'a>> {
        let interfaces = self.kernel.interfaces()?;
        let peers: BTreeMap<_, _> = interfaces
            .into_iter()
            .filter_map(|(index, interface)| Some((index, interface.peer_netns?)))
            .collect();
        Ok(move |address: IpAddr| match local.pods.get(&address) {
            Some(index) => peers.get(index).map(|id| Home::Pod(*id)),
            None => local.host.contains(&address).then_some(Home::Node),
        })
    }

    /// Takes out what is closed, and what was tried often enough.
    fn forget(&mut self, closing: &[ClosingFlow], failed: &HashSet<ClosingFlow>) {
        let mut done = Vec::new();
        for flow in closing {
            let attempts = self.failed.entry(*flow).or_default();
            *attempts += 1;
            if !failed.contains(flow) || *attempts >= ATTEMPTS {
                self.failed.remove(flow);
                done.push(*flow);
            }
        }
        if let Err(e) = self.flows.delete(&done) {
            tracing::warn!("{e}");
        }
    }
}
