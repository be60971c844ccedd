//! Who has which address. Sites share these addresses, each with routes of its own, so
//! that one set of Services and EndpointSlices serves them all.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::load::{Range, Targets};

/// Port of the services and of the servers: the same, so that a job's targets may
/// be either.
pub const PORT: u16 = 8080;

/// All pods. kube-proxy masquerades what comes from elsewhere.
pub const CLUSTER_CIDR: &str = "10.128.0.0/9";
/// All services.
pub const SERVICE_CIDR: &str = "10.96.0.0/16";
/// The server pod on the node under test owns all of this.
pub const NEAR_CIDR: &str = "10.128.0.0/13";
/// The server pod on the other node owns all of this.
pub const FAR_CIDR: &str = "10.136.0.0/13";
/// The client pod connects from these.
pub const CLIENT_CIDR: &str = "10.144.0.0/26";

/// All addresses of [`NEAR_CIDR`].
pub const NEAR: Range = Range {
    first: Ipv4Addr::new(10, 128, 0, 0),
    count: 1 << 19,
};
/// All addresses of [`FAR_CIDR`].
pub const FAR: Range = Range {
    first: Ipv4Addr::new(10, 136, 0, 0),
    count: 1 << 19,
};
/// All usable addresses of [`CLIENT_CIDR`].
pub const CLIENTS: Range = Range {
    first: Ipv4Addr::new(10, 144, 0, 1),
    count: 62,
};

/// Below it are the addresses that Kubernetes takes for itself.
const FIRST_SERVICE: Range = Range {
    first: Ipv4Addr::new(10, 96, 16, 0),
    count: 1 << 15,
};
/// The two backends between which the changing service moves: at the far end.
const MOVING: Range = Range {
    first: Ipv4Addr::new(10, 143, 255, 0),
    count: 2,
};
/// Addresses of a server that no endpoint uses, at the low end.
const SKIPPED: u32 = 256;

/// How many services of how many endpoints, and their addresses.
///
/// Besides them there is one more service, with one endpoint, which the cases
/// about changes move about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Number of services.
    pub services: u32,
    /// Endpoints of each; even: half of them on the same node, half on the other.
    pub endpoints: u32,
}

impl Plan {
    /// The address of service `index`.
    pub fn service(&self, index: u32) -> Ipv4Addr {
        FIRST_SERVICE.nth(index)
    }

    /// The addresses behind service `index`.
    pub fn backends(&self, index: u32) -> impl Iterator<Item = Ipv4Addr> + use<> {
        let first = index * self.endpoints;
        (first..first + self.endpoints).map(|n| {
            let side = if n % 2 == 0 { NEAR } else { FAR };
            side.nth(SKIPPED + n / 2)
        })
    }

    /// Connections through the services, picked at random.
    pub fn through_services(&self) -> Targets {
        let services = Range {
            first: self.service(0),
            count: self.services,
        };
        Targets {
            ranges: vec![services],
            port: PORT,
        }
    }

    /// Connections to the same backends without a service between.
    pub fn direct(&self, near: bool, far: bool) -> Targets {
        let half = |side: Range| Range {
            first: side.nth(SKIPPED),
            count: (self.services * self.endpoints / 2).max(1),
        };
        let sides = [(near, NEAR), (far, FAR)];
        let ranges = sides
            .into_iter()
            .filter(|(wanted, _)| *wanted)
            .map(|(_, s)| half(s));
        Targets {
            ranges: ranges.collect(),
            port: PORT,
        }
    }

    /// The last of the services.
    pub fn last_service(&self) -> Targets {
        self.to(self.service(self.services.saturating_sub(1)))
    }

    /// The address of the service that moves.
    pub fn moving_service(&self) -> Ipv4Addr {
        FIRST_SERVICE.nth(self.services)
    }

    /// Connections through the service that moves.
    pub fn through_moving_service(&self) -> Targets {
        self.to(self.moving_service())
    }

    /// The backend of the moving service after `changes` changes.
    pub fn moving_backend(&self, changes: u32) -> Ipv4Addr {
        MOVING.nth(changes % MOVING.count)
    }

    fn to(&self, address: Ipv4Addr) -> Targets {
        Targets {
            ranges: vec![Range::one(address)],
            port: PORT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_answers_and_half_are_near() {
        let plan = Plan {
            services: 5_000,
            endpoints: 50,
        };
        let all: Vec<_> = (0..plan.services)
            .flat_map(|index| plan.backends(index))
            .collect();
        let near = all
            .iter()
            .filter(|address| NEAR.contains(**address))
            .count();
        assert_eq!((all.len(), near), (250_000, 125_000));
        let direct = plan.direct(true, true);
        for address in all {
            assert!(NEAR.contains(address) || FAR.contains(address), "{address}");
            assert!(
                direct.ranges.iter().any(|range| range.contains(address)),
                "{address}"
            );
        }
    }

    #[test]
    fn the_moving_service_is_apart() {
        let plan = Plan {
            services: 10_000,
            endpoints: 2,
        };
        let services = plan.through_services().ranges;
        assert!(
            services
                .iter()
                .all(|range| !range.contains(plan.moving_service()))
        );
        assert!(FAR.contains(plan.moving_backend(0)));
        assert_ne!(plan.moving_backend(0), plan.moving_backend(1));
    }
}
