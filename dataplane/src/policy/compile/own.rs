//! What a rule says about the selected workload itself.

use std::net::IpAddr;

use super::fact::{Fact, Leaf, points_of_ports};
use super::policy::CompiledRule;
use super::steps::Steps;
use super::tree::Tree;
use super::tri::Tri;
use crate::policy::subject::Subject;

/// The selected workload.
pub(crate) struct Own<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) addresses: &'a [IpAddr],
}

/// What a rule asks about the selected workload, answered. Equal answers make equal sets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnAnswer {
    /// When its IPv4 address is used.
    pub(crate) v4: Steps<Tri>,
    /// When its IPv6 address is used.
    pub(crate) v6: Steps<Tri>,
}

impl Own<'_> {
    pub(crate) fn answer(&self, rule: &CompiledRule) -> OwnAnswer {
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) =
            self.addresses.iter().partition(|address| address.is_ipv4());
        if !rule.by_family || v4.is_empty() || v6.is_empty() {
            let both = self.ask(&rule.own, self.addresses);
            return OwnAnswer {
                v4: both.clone(),
                v6: both,
            };
        }
        OwnAnswer {
            v4: self.ask(&rule.own, &v4),
            v6: self.ask(&rule.own, &v6),
        }
    }

    fn ask(&self, condition: &Tree<Leaf>, addresses: &[IpAddr]) -> Steps<Tri> {
        condition.answer(&Steps::constant, &|leaf| match leaf {
            Leaf::Fact(Fact::Address(cidr)) => {
                Steps::constant(Fact::holds_of_addresses(cidr, addresses))
            }
            Leaf::Fact(fact) => Steps::constant(fact.holds_of(self.subject).into()),
            Leaf::Points(steps) => steps.clone(),
            Leaf::PortName(name) => {
                let ports = self.subject.ports.get(name).copied();
                points_of_ports(ports.unwrap_or_default())
            }
        })
    }
}
