//! Events get their names when they happen, as pods and policies come and go; sentences are made only for those who read them.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weft_proto::wire::flow::v1::Endpoint;

use super::enrich::{endpoint, policy, service};
use super::{Clock, Event, EventKind, Names, Request};

/// Names of one sort that are remembered. The whole world may knock.
const MOST: usize = 4_096;

/// An event, and what its numbers stood for when it happened.
#[derive(Clone, Debug)]
pub struct NamedEvent {
    /// As the kernel told it.
    pub event: Event,
    /// Nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// Without its port.
    pub(super) source: Arc<Endpoint>,
    /// As `source`.
    pub(super) destination: Arc<Endpoint>,
    pub(super) service: Arc<str>,
    pub(super) decider: Arc<Decider>,
    /// What Envoy has judged.
    pub(super) request: Option<Arc<Request>>,
}

impl NamedEvent {
    /// Without its port; shared by all events of this end, as long as its names stay the same.
    pub(crate) const fn source(&self) -> &Arc<Endpoint> {
        &self.source
    }

    /// As [`NamedEvent::source`].
    pub(crate) const fn destination(&self) -> &Arc<Endpoint> {
        &self.destination
    }

    /// "namespace/name", or nothing.
    pub(crate) fn service(&self) -> &str {
        &self.service
    }

    /// [`NamedEvent::service`], shared as [`NamedEvent::source`] is.
    pub(super) fn shared_service(&self) -> Arc<str> {
        Arc::clone(&self.service)
    }

    /// The object that decided, or nothing.
    pub(crate) fn policy(&self) -> &str {
        &self.decider.policy
    }

    /// Its rule, or nothing.
    pub(crate) fn rule(&self) -> &str {
        &self.decider.rule
    }
}

/// The deciding object and its rule.
#[derive(Debug, Default)]
pub(super) struct Decider {
    pub(super) policy: String,
    pub(super) rule: String,
}

/// Remembers names for as long as they stay the same.
#[derive(Debug, Default)]
pub struct Namer {
    generation: u64,
    ends: HashMap<(IpAddr, u32), Arc<Endpoint>>,
    services: HashMap<(u32, Option<SocketAddr>, u8), Arc<str>>,
    deciders: HashMap<u32, Arc<Decider>>,
}

impl Namer {
    /// Forgets what it knows if it is not of this generation of names.
    pub fn renew(&mut self, generation: u64) {
        if self.generation != generation {
            *self = Self {
                generation,
                ..Self::default()
            };
        }
    }

    /// `event` with its names.
    pub fn name(&mut self, event: Event, names: &dyn Names, clock: &Clock) -> NamedEvent {
        let mut end = |at: SocketAddr, identity: u32| {
            remembered(&mut self.ends, (at.ip(), identity), || {
                Arc::new(endpoint(SocketAddr::new(at.ip(), 0), identity, names))
            })
        };
        let source = end(event.source, event.source_identity);
        let destination = end(event.destination, event.destination_identity);
        let asked = (event.service, event.vip, event.protocol);
        let rule = match event.kind {
            EventKind::Audited => event.audit,
            _ => event.rule,
        };
        NamedEvent {
            time_unix_nano: clock.unix_ns(event.time_ns),
            source,
            destination,
            service: remembered(&mut self.services, asked, || service(&event, names).into()),
            decider: remembered(&mut self.deciders, rule, || {
                let (policy, rule) = policy(rule, names);
                Arc::new(Decider { policy, rule })
            }),
            request: None,
            event,
        }
    }
}

fn remembered<K: Eq + Hash, V: Clone>(
    known: &mut HashMap<K, V>,
    key: K,
    find: impl FnOnce() -> V,
) -> V {
    if known.len() >= MOST && !known.contains_key(&key) {
        known.clear();
    }
    known.entry(key).or_insert_with(find).clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Reason;
    use crate::flow::fake::Fake;
    use crate::flow::tests::event;

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten_with_its_generation() {
        let mut namer = Namer::default();
        let clock = Clock::fixed(0, 0);
        for port in 0..=u32::try_from(MOST).expect("small") {
            let stranger = IpAddr::from(std::net::Ipv4Addr::from_bits(0xc000_0000 + port));
            let event = Event {
                source: (stranger, 7).into(),
                ..event(EventKind::Open, Reason::REASON_NONE)
            };
            let flow = namer.name(event, &Fake::new(), &clock).flow();
            let source = flow.source.expect("an end");
            assert_eq!((source.address, source.port), (stranger.to_string(), 7));
        }
        assert!(namer.ends.len() <= MOST);
        namer.renew(0);
        assert!(!namer.ends.is_empty());
        namer.renew(1);
        assert!(namer.ends.is_empty() && namer.services.is_empty());
    }
}
