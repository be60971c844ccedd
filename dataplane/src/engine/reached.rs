//! Where connections to services arrive.

use std::net::SocketAddr;

use super::Engine;
use super::resources::{Target, keys};
use crate::flow::protocol;

impl Engine {
    /// The addresses of these services ("namespace/name") and of all their endpoints, ready or not, near or far: every node finds
    /// the same ones. Each with its service's place in `services` and the protocol (`IPPROTO_*`).
    pub(crate) fn reached_at(&self, services: &[String]) -> Vec<(usize, (SocketAddr, u8))> {
        let mut found = Vec::new();
        for listener in self.resources.listeners.values() {
            let Some(of) = &listener.service else {
                continue;
            };
            let is_of = |name: &String| name.split_once('/') == Some((&of.namespace, &of.name));
            let Some(place) = services.iter().position(is_of) else {
                continue;
            };
            let number = protocol::of(listener.protocol);
            let own = keys(listener).map(|key| SocketAddr::new(key.address, key.port));
            found.extend(own.map(|address| (place, (address, number))));
            if let Target::Here(_, endpoints) = self.resources.target(&listener.cluster) {
                let all = endpoints.iter().map(|e| (place, (e.address, number)));
                found.extend(all);
            }
        }
        found
    }
}
