//! `networking.k8s.io/v1` NetworkPolicy.

use weft_proto::model::policy::{Cidr, IpProtocol};

use super::LabelSelector;

/// Pods of one namespace are isolated, but for what the rules allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// Of its own namespace.
    pub pods: LabelSelector,
    /// `None`: this policy is not about ingress. Empty: nothing is let in.
    pub ingress: Option<Vec<NetworkRule>>,
    /// `None`: this policy is not about egress. Empty: nothing is let out.
    pub egress: Option<Vec<NetworkRule>>,
}

/// One of the peers, and one of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRule {
    /// Where it stands: "ingress[0]".
    pub name: String,
    /// Empty: everybody.
    pub peers: Vec<NetworkPeer>,
    /// Empty: all ports of all protocols.
    pub ports: Vec<NetworkPort>,
}

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkPeer {
    /// Pods that both select.
    Pods {
        /// `None`: the policy's own namespace.
        namespaces: Option<LabelSelector>,
        /// Of those namespaces.
        pods: LabelSelector,
    },
    /// `ipBlock`
    Block {
        /// Addresses in here,
        cidr: Cidr,
        /// but in none of these.
        except: Vec<Cidr>,
    },
}

/// Ports of one protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPort {
    /// Never ICMP.
    pub protocol: IpProtocol,
    /// Which of its ports.
    pub port: PortChoice,
}

/// Some ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortChoice {
    /// All.
    All,
    /// From one to another, both included.
    Range(u16, u16),
    /// The one that the destination calls so.
    Name(String),
}

impl NetworkPolicy {
    pub(super) fn namespace_selectors(&self) -> impl Iterator<Item = &LabelSelector> {
        let rules = [&self.ingress, &self.egress]
            .into_iter()
            .flatten()
            .flatten();
        rules
            .flat_map(|rule| &rule.peers)
            .filter_map(|peer| match peer {
                NetworkPeer::Pods { namespaces, .. } => namespaces.as_ref(),
                NetworkPeer::Block { .. } => None,
            })
    }
}
