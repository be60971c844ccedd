//! Endpoints as a node keeps them: there are many, so they are small.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_proto::model::{Endpoint, Health, Locality};

/// [`Endpoint`] with its locality shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEndpoint {
    /// Address and port.
    pub address: SocketAddr,
    /// Relative share of new connections, at least 1.
    pub weight: u32,
    /// Envoy's priority, at most 127: a lower one is used first.
    pub priority: u8,
    /// Whether new connections may land here.
    pub health: Health,
    /// Where it runs.
    pub locality: Arc<Locality>,
}

/// Localities seen, so that a thousand endpoints on one node share its name.
#[derive(Debug, Default)]
pub struct LocalityPool {
    known: HashSet<Arc<Locality>>,
}

impl LocalityPool {
    /// More distinct localities than any cluster has nodes; a server that sends more gets no sharing, but no leak either.
    const MOST: usize = 16_384;

    /// The compact form of `endpoints`, sorted by address.
    pub fn compact(&mut self, endpoints: Vec<Endpoint>) -> Vec<NodeEndpoint> {
        let mut list: Vec<NodeEndpoint> = endpoints
            .into_iter()
            .map(|e| NodeEndpoint {
                address: e.address,
                weight: e.weight.max(1),
                priority: u8::try_from(e.priority).unwrap_or(u8::MAX),
                health: e.health,
                locality: self.share(e.locality),
            })
            .collect();
        list.sort_by_key(|e| e.address);
        list.dedup_by_key(|e| e.address);
        list
    }

    fn share(&mut self, locality: Locality) -> Arc<Locality> {
        if let Some(known) = self.known.get(&locality) {
            return Arc::clone(known);
        }
        if self.known.len() >= Self::MOST {
            self.known.clear();
        }
        let shared = Arc::new(locality);
        self.known.insert(Arc::clone(&shared));
        shared
    }
}
