//! Maps `local_workloads`, `peer_rules`, `rules` and `policy_settings`: what judges whom.

use super::{
    IdentityNumber, LocalWorkload, PeerKey, PolicySet, PolicySettings, RuleEntry, RuleRange,
    RuleReason, SetId, Verdict,
};
use crate::bpf::{Record, types};

fn raw_set(set: PolicySet) -> types::policy_set {
    types::policy_set {
        id: set.id.0,
        base: set.rules.base,
        count: set.rules.count,
    }
}

fn set(raw: types::policy_set) -> Option<PolicySet> {
    (raw.id != 0).then_some(PolicySet {
        id: SetId(raw.id),
        rules: RuleRange {
            base: raw.base,
            count: raw.count,
        },
    })
}

impl Record for LocalWorkload {
    type Raw = types::local_workload;

    fn to_raw(&self) -> Self::Raw {
        types::local_workload {
            egress: raw_set(self.egress),
            ingress: raw_set(self.ingress),
            flags: if self.layer7 { LAYER7 } else { 0 },
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            egress: set(raw.egress)?,
            ingress: set(raw.ingress)?,
            layer7: raw.flags & LAYER7 != 0,
        })
    }
}

impl Record for PeerKey {
    type Raw = types::peer_key;

    fn to_raw(&self) -> Self::Raw {
        types::peer_key {
            set: self.set.0,
            identity: self.identity.0,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            set: SetId(raw.set),
            identity: IdentityNumber::from_raw(raw.identity)?,
        })
    }
}

impl Record for RuleRange {
    type Raw = types::rule_range;

    fn to_raw(&self) -> Self::Raw {
        types::rule_range {
            base: self.base,
            count: self.count,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            base: raw.base,
            count: raw.count,
        })
    }
}

const VERDICTS: [Verdict; 3] = [Verdict::Allow, Verdict::Deny, Verdict::Proxy];
const LAYER7: u32 = types::workload_flags::WORKLOAD_LAYER7.0;
const REASONS: [RuleReason; 5] = [
    RuleReason::Default,
    RuleReason::Policy,
    RuleReason::Isolated,
    RuleReason::Layer7,
    RuleReason::NoRoom,
];

impl Record for RuleEntry {
    type Raw = types::rule;

    fn to_raw(&self) -> Self::Raw {
        types::rule {
            first: self.first,
            set: self.set.0,
            id: self.rule,
            audit: self.audit,
            verdict: self.verdict as u8,
            reason: self.reason as u8,
            pad: 0,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            first: raw.first,
            set: SetId(raw.set),
            verdict: VERDICTS.into_iter().find(|v| *v as u8 == raw.verdict)?,
            reason: REASONS.into_iter().find(|r| *r as u8 == raw.reason)?,
            rule: raw.id,
            audit: raw.audit,
        })
    }
}

impl Record for PolicySettings {
    type Raw = types::policy_settings;

    fn to_raw(&self) -> Self::Raw {
        types::policy_settings {
            epoch: self.epoch,
            next_set: self.next_set,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            epoch: raw.epoch,
            next_set: raw.next_set,
        })
    }
}
