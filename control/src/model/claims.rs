//! Which service has which address.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use weft_proto::model::Protocol;

use crate::object::{ObjectName, Service};

/// What only one service can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// Virtual address.
    pub address: IpAddr,
    /// Port.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
}

/// A service that wants it. The least one gets it: the oldest, then the first by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claimant {
    /// Unix seconds; what has no time counts as oldest.
    pub created: Option<i64>,
    /// The service.
    pub service: ObjectName,
}

/// All claims.
#[derive(Debug, Default)]
pub(super) struct Claims(HashMap<Claim, BTreeSet<Claimant>>);

impl Claims {
    pub(super) fn get(&self, claim: &Claim) -> Option<&BTreeSet<Claimant>> {
        self.0.get(claim)
    }

    /// Adds what the service claims and returns with whom it shares any of it.
    pub(super) fn insert(&mut self, claimant: &Claimant, service: &Service) -> Vec<ObjectName> {
        let mut rivals = Vec::new();
        for claim in claims(service) {
            let all = self.0.entry(claim).or_default();
            rivals.extend(all.iter().map(|c| c.service.clone()));
            all.insert(claimant.clone());
        }
        rivals
    }

    /// Takes away what the service claimed and returns with whom it shared any of it.
    pub(super) fn remove(&mut self, claimant: &Claimant, service: &Service) -> Vec<ObjectName> {
        let mut rivals = Vec::new();
        for claim in claims(service) {
            let Some(all) = self.0.get_mut(&claim) else {
                continue;
            };
            all.remove(claimant);
            rivals.extend(all.iter().map(|c| c.service.clone()));
            if all.is_empty() {
                self.0.remove(&claim);
            }
        }
        rivals
    }
}

fn claims(service: &Service) -> impl Iterator<Item = Claim> {
    service.ports.iter().flat_map(|port| {
        service.addresses.iter().map(|address| Claim {
            address: *address,
            port: port.port,
            protocol: port.protocol,
        })
    })
}
