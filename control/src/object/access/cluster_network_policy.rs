//! `policy.networking.k8s.io/v1alpha2` ClusterNetworkPolicy.

use weft_proto::model::policy::{Cidr, Effect, IpProtocol, Tier};

use super::{LabelSelector, PortChoice};

/// Rules of the cluster's administrator, asked in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNetworkPolicy {
    /// Admin or Baseline.
    pub tier: Tier,
    /// Lower ones first, 0 to 1000.
    pub priority: u32,
    /// Whom it is about.
    pub subject: PodSelector,
    /// In their order.
    pub ingress: Vec<ClusterRule>,
    /// In their order.
    pub egress: Vec<ClusterRule>,
}

/// Pods of some namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodSelector {
    /// Which namespaces.
    pub namespaces: LabelSelector,
    /// Which of their pods.
    pub pods: LabelSelector,
}

/// One of the peers, and one of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRule {
    /// Its index, counted with the ones that could not be used.
    pub index: usize,
    /// Its own name, or where it stands: "ingress[0]".
    pub name: String,
    /// What happens to traffic that it matches.
    pub effect: Effect,
    /// `None`: everybody.
    pub peers: Option<Vec<ClusterPeer>>,
    /// Empty: all ports of all protocols.
    pub ports: Vec<ClusterPort>,
}

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterPeer {
    /// `namespaces` or `pods`
    Pods(PodSelector),
    /// `nodes`
    Nodes(LabelSelector),
    /// `networks`
    Networks(Vec<Cidr>),
}

/// Some ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPort {
    /// `None`: the protocol for which the destination declares a port of that name.
    pub protocol: Option<IpProtocol>,
    /// Which.
    pub port: PortChoice,
}

impl ClusterNetworkPolicy {
    pub(super) fn namespace_selectors(&self) -> impl Iterator<Item = &LabelSelector> {
        let rules = self.ingress.iter().chain(&self.egress);
        let peers = rules.flat_map(|rule| rule.peers.iter().flatten());
        let selectors = peers.filter_map(|peer| match peer {
            ClusterPeer::Pods(pods) => Some(&pods.namespaces),
            ClusterPeer::Nodes(_) | ClusterPeer::Networks(_) => None,
        });
        std::iter::once(&self.subject.namespaces).chain(selectors)
    }
}
