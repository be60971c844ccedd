//! Pods.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weft_proto::model::policy::IpProtocol;
use weft_proto::model::{Health, NamedPort, Protocol};

use super::TargetPort;

/// A pod as its peers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `status.podIPs`, or `status.podIP`.
    pub addresses: Vec<IpAddr>,
    /// `spec.nodeName`; empty when it is not scheduled yet.
    pub node: String,
    /// `spec.serviceAccountName`, "default" when it names none.
    pub service_account: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// Shares its node's addresses.
    pub host_network: bool,
    /// Phase Succeeded or Failed: its addresses may already be another's.
    pub finished: bool,
    /// Condition Ready; true as well when its manifest has addresses but no conditions at all.
    pub ready: bool,
    /// Has a `metadata.deletionTimestamp`.
    pub terminating: bool,
    /// Container ports that have a name.
    pub ports: Vec<NamedPort>,
    /// Annotation `weft.io/weight`: its share of new connections.
    pub weight: u32,
    /// Annotation `weft.io/acceleration: "off"`: its connections stay with TCP.
    pub unaccelerated: bool,
    /// `weft.io/mesh`; `None`: as its namespace says.
    pub in_mesh: Option<bool>,
}

impl Pod {
    /// What the EndpointSlice controller and kube-proxy together make of it.
    #[must_use]
    pub const fn health(&self, publish_not_ready: bool) -> Health {
        if publish_not_ready || (self.ready && !self.terminating) {
            Health::Healthy
        } else if self.ready {
            Health::Draining
        } else {
            Health::Unhealthy
        }
    }

    /// The port number a service's `target` means in this pod.
    #[must_use]
    pub fn port(&self, target: &TargetPort, protocol: Protocol) -> Option<u16> {
        match target {
            TargetPort::Number(number) => Some(*number),
            TargetPort::Name(name) => {
                let protocol = match protocol {
                    Protocol::Tcp => IpProtocol::Tcp,
                    Protocol::Udp => IpProtocol::Udp,
                };
                self.ports
                    .iter()
                    .find(|p| p.name == *name && p.protocol == protocol)
                    .map(|p| p.port)
            }
        }
    }
}
