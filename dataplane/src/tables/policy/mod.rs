//! The tables of identities and policies, see `bpf/include/abi/policy.h`.

mod identities;
mod keys;
mod rules;

use std::net::IpAddr;

pub use keys::{
    CidrKey, IdentityEntry, IdentityNumber, LocalWorkload, NodePart, PeerKey, PolicySet,
    PolicySettings, RuleEntry, RuleRange, RuleReason, SetId, Verdict,
};

use super::Table;
use super::mtls::MtlsTables;

/// All tables that the policy engine writes. The kernel only reads them.
pub struct PolicyTables {
    /// Who has an address.
    pub identities: Box<dyn Table<IpAddr, IdentityEntry>>,
    /// As whom policies know what has no entry in `identities`; the longest prefix counts.
    pub cidr_identities: Box<dyn Table<CidrKey, IdentityNumber>>,
    /// What judges a local pod, by the index of its interface's host side.
    pub local_workloads: Box<dyn Table<u32, LocalWorkload>>,
    /// Where a set has the rules for a peer, if it has any of its own for that one.
    pub peer_rules: Box<dyn Table<PeerKey, RuleRange>>,
    /// All rules, by place. Who has which place is for the engine to know.
    pub rules: Box<dyn Table<u32, RuleEntry>>,
    /// One entry, under 0.
    pub settings: Box<dyn Table<u32, PolicySettings>>,
    /// What pods take from other nodes.
    pub mtls: MtlsTables,
}
