//! What this node says of its own backends to load balancers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weft_proto::model::{Health, Listener};

use super::Engine;
use super::resources::Target;
use crate::health_checks::{ServiceHealth, ServiceHealths};

impl Engine {
    pub(super) fn tell_health(&self) {
        let all: ServiceHealths = self
            .resources
            .health_checks()
            .filter_map(|(port, listeners)| {
                let service = listeners.iter().find_map(|l| l.service.clone())?;
                let local = self.local_backends(&listeners);
                Some((port, ServiceHealth { service, local }))
            })
            .collect();
        self.healths.send_if_modified(|known| {
            let changed = *known != all;
            *known = all;
            changed
        });
    }

    /// How many are ready: what drains still serves, but is to be given nothing new. A backend has an address in each family.
    fn local_backends(&self, listeners: &[&Listener]) -> usize {
        let endpoints = listeners
            .iter()
            .flat_map(|l| match self.resources.target(&l.cluster) {
                Target::Here(_, endpoints) => endpoints,
                Target::Pending | Target::Missing => &[],
            });
        let here = endpoints
            .filter(|e| e.health == Health::Healthy && e.locality.node == self.here.node)
            .map(|e| e.address.ip());
        let (v4, v6): (BTreeSet<IpAddr>, BTreeSet<IpAddr>) = here.partition(IpAddr::is_ipv4);
        v4.len().max(v6.len())
    }
}
