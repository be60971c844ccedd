//! The reference: whether a connection is let through, from the objects and the specifications alone. It is written to be compared
//! with those by eye; nothing is prepared, shared or ordered beforehand.
//!
//! A connection is judged at each end that is a pod of the node: where it leaves its source by egress rules, where it reaches its
//! destination by ingress rules.

mod authorization_policy;
mod cidr;
mod cluster_network_policy;
mod network_policy;
mod party;
mod selector;
mod truth;

pub use cidr::{Cidr, CidrError};
pub use party::{Party, Who};
pub use truth::Truth;

use std::collections::BTreeMap;

use crate::connection::{Connection, Protocol};
use crate::object::{Cluster, ClusterTier, Metadata, Pod};

/// Which end judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The source, of what it opens.
    Egress,
    /// The destination, of what is opened to it.
    Ingress,
}

impl Side {
    /// Both of them, in the order of a packet.
    pub const BOTH: [Self; 2] = [Self::Egress, Self::Ingress];
}

/// What becomes of a connection at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Let through.
    Allow,
    /// Refused.
    Deny,
    /// Refused because only a proxy could tell.
    Layer7,
}

/// A verdict, and what audited policies make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Judgement {
    /// Of the policies that are enforced.
    pub verdict: Verdict,
    /// Let through, and refused if audited policies were enforced.
    pub audited: bool,
}

/// What holds where no policy selects: `--default-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum DefaultPolicy {
    /// As Kubernetes has it.
    #[default]
    Allow,
    /// Nothing passes that no policy lets through.
    Deny,
}

/// Weft's annotation for policies that only tell.
pub const MODE: &str = "weft.io/mode";

/// A node's view of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// All objects.
    pub cluster: &'a Cluster,
    /// The node that judges.
    pub node: &'a str,
    /// Its option.
    pub default: DefaultPolicy,
}

impl<'a> View<'a> {
    /// What the node makes of a connection at one of its ends; `None` if that end is no pod of this node.
    #[must_use]
    pub fn judge(&self, side: Side, connection: &Connection) -> Option<Judgement> {
        let source = Party::at(self.cluster, connection.source);
        let destination = Party::at(self.cluster, connection.destination);
        let (judged, peer) = match side {
            Side::Egress => (&source, &destination),
            Side::Ingress => (&destination, &source),
        };
        let pod = judged.pod().filter(|pod| pod.spec.node_name == self.node)?;
        // "Traffic to and from the node where a Pod is running is always allowed, regardless of the IP address of the Pod or the
        // node": https://kubernetes.io/docs/concepts/services-networking/network-policies/
        let question = Question {
            cluster: self.cluster,
            side,
            pod,
            source: &source,
            destination: &destination,
            connection,
            request: None,
        };
        if peer
            .node()
            .is_some_and(|node| node.metadata.name == self.node)
        {
            // But not round the proxy, where it is asked about requests.
            let asked = side == Side::Ingress
                && connection.protocol == Protocol::Tcp
                && authorization_policy::asks_about_requests(&question);
            let verdict = match asked && self.verdict(&question, Counts::Enforced) != Verdict::Allow
            {
                true => Verdict::Layer7,
                false => Verdict::Allow,
            };
            return Some(Judgement {
                verdict,
                audited: false,
            });
        }
        let verdict = self.verdict(&question, Counts::Enforced);
        let all = self.verdict(&question, Counts::All);
        Some(Judgement {
            verdict,
            audited: verdict == Verdict::Allow && all != Verdict::Allow,
        })
    }

    /// Whether a proxy at the destination lets a request through that has come to it.
    #[must_use]
    pub fn lets_request_in(&self, connection: &Connection, request: &Request) -> Option<bool> {
        let source = Party::at(self.cluster, connection.source);
        let destination = Party::at(self.cluster, connection.destination);
        let question = Question {
            cluster: self.cluster,
            side: Side::Ingress,
            pod: destination.pod()?,
            source: &source,
            destination: &destination,
            connection,
            request: Some(request),
        };
        let allowed = authorization_policy::allows(&question, Counts::Enforced);
        Some(allowed == Truth::True)
    }

    /// By the policies that count.
    fn verdict(&self, question: &Question<'_>, counts: Counts) -> Verdict {
        let network = self.network(question, counts);
        // "while Accept ensures traffic is accepted by Kubernetes network policy, it is still possible that the packet is blocked
        // in other ways: custom nftable rules, high-layers e.g. service mesh": documentation of ClusterNetworkPolicyRuleAction.
        let mesh = match question.side {
            Side::Egress => Truth::True,
            Side::Ingress => authorization_policy::allows(question, counts),
        };
        match (network, mesh) {
            (false, _) | (_, Truth::False) => Verdict::Deny,
            (true, Truth::Unknown) => Verdict::Layer7,
            (true, Truth::True) => Verdict::Allow,
        }
    }

    /// "Policy tiers are evaluated in the following order: Admin tier, NetworkPolicy tier, Baseline tier": documentation of
    /// `ClusterNetworkPolicySpec.tier`.
    fn network(&self, question: &Question<'_>, counts: Counts) -> bool {
        cluster_network_policy::decision(question, ClusterTier::Admin, counts)
            .or_else(|| network_policy::decision(question, counts))
            .or_else(|| cluster_network_policy::decision(question, ClusterTier::Baseline, counts))
            .unwrap_or(self.default == DefaultPolicy::Allow)
    }
}

/// What is to be judged.
struct Question<'a> {
    cluster: &'a Cluster,
    side: Side,
    /// Whose policies are asked: the source or the destination.
    pod: &'a Pod,
    source: &'a Party<'a>,
    destination: &'a Party<'a>,
    connection: &'a Connection,
    /// What a proxy sees; `None`: nobody does.
    request: Option<&'a Request>,
}

/// An HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Such as `GET`.
    pub method: String,
    /// `Host`.
    pub host: String,
    /// Without query.
    pub path: String,
    /// Names in lower case, once each.
    pub headers: BTreeMap<String, String>,
}

impl<'a> Question<'a> {
    /// The other end.
    const fn peer(&self) -> &'a Party<'a> {
        match self.side {
            Side::Egress => self.destination,
            Side::Ingress => self.source,
        }
    }
}

/// Which policies are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// Those that refuse.
    Enforced,
    /// Also those that only tell, as if they did.
    All,
}

impl Counts {
    fn contains(self, metadata: &Metadata) -> bool {
        self == Self::All || metadata.annotations.get(MODE).map(String::as_str) != Some("Audit")
    }
}
