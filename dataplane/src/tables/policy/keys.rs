//! Keys and values of the policy tables as the agent thinks of them; their byte form is `bpf/include/abi/policy.h`.

use std::net::IpAddr;

use crate::bpf::types::{identity_number, reason, verdict};

/// Number of everything that policies cannot tell apart. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdentityNumber(pub u32);

impl IdentityNumber {
    /// No workload's address, no node's, and in no CIDR that a policy mentions.
    pub const WORLD: Self = Self(identity_number::IDENTITY_WORLD.0);
    /// Whoever found no room in a table, and those who cannot be told from such: every set refuses it.
    pub const REFUSED: Self = Self(identity_number::IDENTITY_REFUSED.0);
    /// The agent numbers from here on.
    pub const FIRST: Self = Self(identity_number::IDENTITY_FIRST.0);
}

/// Whether an address is a node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum NodePart {
    /// A pod's, or nobody's that is known.
    #[default]
    None,
    /// This node itself: always let in and out.
    Host,
    /// Another node.
    Remote,
}

/// Who has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityEntry {
    /// As whom policies know it.
    pub number: IdentityNumber,
    /// Host side of the local pod's interface; 0 for what is no local pod with its own namespace.
    pub interface: u32,
    /// Whether it is a node's.
    pub node: NodePart,
}

/// An address prefix with IPv4 as v4-mapped IPv6: how the trie holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CidrKey {
    /// First address. Canonical: never a v4-mapped IPv6 address.
    pub address: IpAddr,
    /// Bits that count, of 32 or 128.
    pub prefix: u8,
}

/// Number of a policy set. Never 0, and not used again while the maps live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(pub u32);

/// Where something has its rules in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleRange {
    /// Index of the first.
    pub base: u32,
    /// How many.
    pub count: u32,
}

/// A policy set, and the rules for peers that have none of their own in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicySet {
    /// Which.
    pub id: SetId,
    /// Rules for everybody else.
    pub rules: RuleRange,
}

/// What judges a local pod's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalWorkload {
    /// Envoy may have to be asked about what is opened to it.
    pub layer7: bool,
    /// Those that it opens.
    pub egress: PolicySet,
    /// Those that are opened to it.
    pub ingress: PolicySet,
}

/// A peer of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerKey {
    /// Whose.
    pub set: SetId,
    /// Which peer.
    pub identity: IdentityNumber,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// It is let through.
    Allow = verdict::VERDICT_ALLOW.0 as isize,
    /// It is refused.
    Deny = verdict::VERDICT_DENY.0 as isize,
    /// Ingress: the node's Envoy decides, request by request.
    Proxy = verdict::VERDICT_PROXY.0 as isize,
}

/// Why a rule lets through or refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleReason {
    /// No policy selects the workload, or none has anything to say: the node's default.
    Default = reason::REASON_DEFAULT.0 as isize,
    /// A policy's rule matches.
    Policy = reason::REASON_POLICY.0 as isize,
    /// Policies select the workload, and none of their rules matches.
    Isolated = reason::REASON_ISOLATED.0 as isize,
    /// Only a proxy can judge it.
    Layer7 = reason::REASON_LAYER7.0 as isize,
    /// Who the peer is found no room.
    NoRoom = reason::REASON_NO_ROOM.0 as isize,
}

/// Stands for all points from `first` up to the next rule's in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleEntry {
    /// First point: (protocol class << 16) | destination port.
    pub first: u32,
    /// Whose rule it is.
    pub set: SetId,
    /// What becomes of the connection.
    pub verdict: Verdict,
    /// Why.
    pub reason: RuleReason,
    /// Names the policy's rule that decided; 0 for none.
    pub rule: u32,
    /// Names the audited policy's rule that would have refused; 0 for none.
    pub audit: u32,
}

/// The one entry of `policy_settings`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PolicySettings {
    /// Of the judgements from now on; 0 only in a fresh table.
    pub epoch: u32,
    /// The lowest [`SetId`] never used; 0 in a fresh table.
    pub next_set: u32,
}
