//! Where services are reached that have a share of their own.
//!
//! Only the client's node knows which service was asked for. Both ends know where the connection arrived: at an address of the
//! service, or at one of its endpoints. Shares go by that, so that both ends choose alike.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::report::Gather;
use super::sampling::Sampling;
use crate::flow::NamedEvent;

/// Addresses are asked for this often at most.
const FRESH: Duration = Duration::from_millis(250);
/// Connections to what is gone may end a while later.
const KEPT: Duration = Duration::from_secs(60);

/// An address of a service, and the protocol (`IPPROTO_*`).
pub type Arrival = (SocketAddr, u8);

/// The services' addresses, as they were a moment ago.
#[derive(Debug)]
pub(super) struct Reached {
    services: Vec<String>,
    known: HashMap<Arrival, Seen>,
    asked: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Place of the service.
    service: usize,
    at: Instant,
}

impl Reached {
    pub(super) fn new(sampling: &Sampling) -> Self {
        Self {
            services: sampling.services().map(str::to_owned).collect(),
            known: HashMap::new(),
            asked: None,
        }
    }

    /// Asks again if what is known is too old. `now`: the time.
    pub(super) async fn refresh(&mut self, gather: &impl Gather, now: Instant) {
        let is_fresh = |asked: Instant| now.saturating_duration_since(asked) < FRESH;
        if self.services.is_empty() || self.asked.is_some_and(is_fresh) {
            return;
        }
        self.asked = Some(now);
        let found = gather.reached_at(&self.services).await;
        self.take(found, now);
    }

    fn take(&mut self, found: impl IntoIterator<Item = (usize, Arrival)>, now: Instant) {
        for (service, arrival) in found {
            let seen = self
                .known
                .entry(arrival)
                .or_insert(Seen { service, at: now });
            // What was seen before was another service's time.
            let is_first = seen.at < now || service < seen.service;
            if is_first {
                *seen = Seen { service, at: now };
            }
        }
        self.known
            .retain(|_, seen| now.saturating_duration_since(seen.at) < KEPT);
    }

    /// Place of the service to which the connection went.
    pub(super) fn service(&self, named: &NamedEvent) -> Option<usize> {
        if self.services.is_empty() {
            return None;
        }
        let event = &named.event;
        let seen = self.known.get(&(event.destination, event.protocol))?;
        Some(seen.service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::fake::{CART, Fake};
    use crate::flow::tests::event;
    use crate::flow::{Clock, EventKind, Namer, Reason, protocol};

    #[test]
    fn the_first_service_holds_and_what_is_gone_is_known_for_a_while() {
        let rules = ["a/first=1", "a/second=0.5"].map(|r| r.parse().expect("a rule"));
        let sampling = Sampling::new("0".parse().expect("a share"), rules, []);
        let mut reached = Reached::new(&sampling);
        let cart: SocketAddr = (CART, 8080).into();
        let clock = Clock::fixed(0, 0);
        let closed = event(EventKind::Close, Reason::REASON_FIN);
        let named = Namer::default().name(closed, &Fake::new(), &clock);
        assert_eq!(reached.service(&named), None);

        let start = Instant::now();
        let at = |service| (service, (cart, protocol::TCP));
        reached.take([at(1), at(0), at(1)], start);
        assert_eq!(reached.service(&named), Some(0));
        // It is the second one's alone from now on.
        let later = start + Duration::from_secs(1);
        reached.take([at(1)], later);
        assert_eq!(reached.service(&named), Some(1));
        // And nobody's.
        reached.take([], later + KEPT / 2);
        assert_eq!(reached.service(&named), Some(1));
        reached.take([], later + KEPT);
        assert_eq!(reached.service(&named), None);
    }
}
