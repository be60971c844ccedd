//! A node as it is: manifests go through the control plane, over the wire, through the agent's policy engine into the kernel's maps,
//! and the programs of pods' interfaces judge packets.

mod check;
mod control;
mod interfaces;
mod kernel;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result};
use weft_dataplane::interfaces::LocalInterfaces;
use weft_dataplane::policy::{PolicyConfig, PolicyEngine};
use weft_dataplane::tables::policy::Verdict;
use weft_proto::model::Resource;
use weft_proto::resource::ResourceType;

pub use check::{BothChecked, Checked};
pub use control::{Change, Control};
pub use interfaces::Interfaces;
pub use kernel::Kernel;

use crate::connection::Connection;
use crate::evaluate::{DefaultPolicy, Side};
use crate::generate::NODE;
use crate::object::Cluster;

/// The node [`NODE`].
pub struct Node {
    control: Control,
    engine: PolicyEngine,
    kernel: Kernel,
    interfaces: Interfaces,
}

impl Node {
    /// A node that knows no cluster yet. Has to be called, as all of its functions, on a thread of the interfaces' network
    /// namespace.
    ///
    /// # Errors
    /// When the kernel refuses the programs, or a map cannot be read.
    pub fn new(interfaces: Interfaces, default: DefaultPolicy) -> Result<Self> {
        let kernel = Kernel::load()?;
        let config = PolicyConfig {
            node: NODE.to_owned(),
            default: match default {
                DefaultPolicy::Allow => Verdict::Allow,
                DefaultPolicy::Deny => Verdict::Deny,
            },
            opens_tunnels: false,
        };
        Ok(Self {
            control: Control::default(),
            engine: PolicyEngine::new(kernel.policy_tables()?, config)?,
            kernel,
            interfaces,
        })
    }

    /// Makes the cluster what it is now.
    ///
    /// # Errors
    /// When a resource does not survive the wire, or there is no interface for a pod.
    pub fn apply(&mut self, cluster: &Cluster) -> Result<()> {
        for change in self.control.apply(cluster)? {
            self.tell(change);
        }
        self.engine.set_synced();
        self.interfaces.assign(&local_pods(cluster))?;
        self.engine.set_interfaces(LocalInterfaces {
            pods: self.interfaces.assigned().clone(),
            host: BTreeSet::from([
                IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(Ipv6Addr::LOCALHOST),
            ]),
            settled: true,
        });
        self.engine.apply();
        Ok(())
    }

    /// What the control plane said was wrong with the objects.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.control.problems()
    }

    /// Whether the first packet of a connection passes at one of its ends; `None` if that end is no pod of this node. Nothing of it is
    /// remembered.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub fn judge(&mut self, side: Side, connection: &Connection) -> Result<Option<bool>> {
        let Some(interface) = self.interface(side, connection) else {
            return Ok(None);
        };
        let frame = crate::packet::first(connection);
        let passes = self.kernel.run(side, interface, &frame)?;
        self.kernel.forget(connection)?;
        Ok(Some(passes))
    }

    /// Whether a frame of a connection passes all that it crosses on this node, from the source or from the destination.
    ///
    /// # Errors
    /// When a program cannot be run.
    pub fn pass(
        &mut self,
        connection: &Connection,
        frame: &[u8],
        from_source: bool,
    ) -> Result<bool> {
        let (sender, receiver) = if from_source {
            (Side::Egress, Side::Ingress)
        } else {
            (Side::Ingress, Side::Egress)
        };
        for (end, program) in [(sender, Side::Egress), (receiver, Side::Ingress)] {
            if let Some(interface) = self.interface(end, connection)
                && !self.kernel.run(program, interface, frame)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What `weft_check` says about a connection.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub fn check(&mut self, connection: &Connection) -> Result<BothChecked> {
        self.kernel.check(connection)
    }

    /// The interface of one end's pod.
    #[must_use]
    pub fn interface(&self, side: Side, connection: &Connection) -> Option<u32> {
        let address = match side {
            Side::Egress => connection.source,
            Side::Ingress => connection.destination,
        };
        let index = self.interfaces.assigned().get(&address)?;
        Some(index.get())
    }

    /// The programs and maps.
    pub const fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    fn tell(&mut self, change: Change) {
        match change {
            Change::Set(resource) => self.set(*resource),
            Change::Removed(ResourceType::Policy, name) => self.engine.remove_policy(&name),
            Change::Removed(ResourceType::Workload, name) => self.engine.remove_workload(&name),
            Change::Removed(..) => {}
        }
    }

    fn set(&mut self, resource: Resource) {
        match resource {
            Resource::Policy(policy) => {
                let name = policy.name.clone();
                self.engine.set_policy(&name, policy);
            }
            Resource::Workload(workload) => {
                let name = workload.name.clone();
                self.engine.set_workload(&name, workload);
            }
            _ => {}
        }
    }
}

/// Addresses that lead to a pod of [`NODE`], and to which.
fn local_pods(cluster: &Cluster) -> BTreeMap<IpAddr, String> {
    let pods = cluster.pods.iter();
    let local = pods.filter(|pod| pod.spec.node_name == NODE);
    let addresses = local.flat_map(|pod| {
        let own = pod.status.pod_ips.iter().map(|ip| ip.ip);
        let name = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        own.filter(|ip| pod.owns(*ip))
            .map(move |ip| (ip, name.clone()))
    });
    addresses.collect()
}

/// Runs `f` on a node of its own.
///
/// # Errors
/// When the namespace or the node cannot be made, and what `f` returns.
pub fn with_node<T: Send>(
    default: DefaultPolicy,
    f: impl FnOnce(&mut Node) -> Result<T> + Send,
) -> Result<T> {
    Interfaces::with(|interfaces| {
        let mut node = Node::new(interfaces, default).context("making a node")?;
        f(&mut node)
    })
}
