//! Events get their names when they happen, as pods and policies come and go; sentences are made only for those who read them.

use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use weft_proto::wire::flow::v1::Endpoint;

use super::enrich::{asked_for, endpoint, policy, service};
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

    /// Whether it tells of a request.
    pub(crate) const fn is_about_request(&self) -> bool {
        self.request.is_some()
    }

    /// Where its names are in memory. As long as somebody holds them, who finds the same places has found the same names.
    pub(crate) fn places(&self) -> [usize; 4] {
        [
            Arc::as_ptr(&self.source) as usize,
            Arc::as_ptr(&self.destination) as usize,
            self.service.as_ptr() as usize,
            Arc::as_ptr(&self.decider) as usize,
        ]
    }
}

/// The deciding object and its rule.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decider {
    pub(super) policy: String,
    pub(super) rule: String,
}

/// Remembers names for as long as they stay the same.
#[derive(Debug, Default)]
pub struct Namer {
    generation: u64,
    ends: Memory<(IpAddr, u32), Endpoint>,
    services: Memory<(u32, Option<SocketAddr>, u8), str>,
    deciders: Memory<u32, Decider>,
}

impl Namer {
    /// Asks anew for what it knows if that is not of this generation of names.
    pub fn renew(&mut self, generation: u64) {
        if self.generation != generation {
            self.generation = generation;
            self.ends.renew();
            self.services.renew();
            self.deciders.renew();
        }
    }

    /// `event` with its names.
    pub fn name(&mut self, event: Event, names: &dyn Names, clock: &Clock) -> NamedEvent {
        let mut end = |at: SocketAddr, identity: u32| {
            self.ends.get((at.ip(), identity), || {
                Arc::new(endpoint(SocketAddr::new(at.ip(), 0), identity, names))
            })
        };
        let source = end(event.source, event.source_identity);
        let destination = end(event.destination, event.destination_identity);
        let asked = (event.service, asked_for(&event), event.protocol);
        let rule = match event.kind {
            EventKind::Audited => event.audit,
            _ => event.rule,
        };
        NamedEvent {
            time_unix_nano: clock.unix_ns(event.time_ns),
            source,
            destination,
            service: self.services.get(asked, || service(&event, names).into()),
            decider: self.deciders.get(rule, || {
                let (policy, rule) = policy(rule, names);
                Arc::new(Decider { policy, rule })
            }),
            request: None,
            event,
        }
    }
}

/// Names of one sort. One that turns out to be as it was stays at its place in memory, where others know it by.
#[derive(Debug)]
struct Memory<K, V: ?Sized> {
    known: HashMap<K, Arc<V>>,
    /// Of former generations.
    before: HashMap<K, Arc<V>>,
}

impl<K, V: ?Sized> Default for Memory<K, V> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            before: HashMap::new(),
        }
    }
}

impl<K: Eq + Hash, V: ?Sized + PartialEq> Memory<K, V> {
    fn get(&mut self, key: K, find: impl FnOnce() -> Arc<V>) -> Arc<V> {
        if let Some(known) = self.known.get(&key) {
            return Arc::clone(known);
        }
        let found = find();
        let same = self.before.remove(&key).filter(|old| **old == *found);
        let value = same.unwrap_or(found);
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(key, Arc::clone(&value));
        value
    }

    fn renew(&mut self) {
        if self.before.len() + self.known.len() > MOST {
            self.before.clear();
        }
        self.before.extend(self.known.drain());
    }
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
        assert!(namer.ends.known.len() <= MOST);
        namer.renew(0);
        assert!(!namer.ends.known.is_empty());
        namer.renew(1);
        assert!(namer.ends.known.is_empty() && namer.services.known.is_empty());
        assert!(namer.ends.before.len() <= MOST);
    }

    #[test]
    fn names_that_stay_the_same_stay_where_they_are() {
        let (mut namer, clock) = (Namer::default(), Clock::fixed(0, 0));
        let open = event(EventKind::Open, Reason::REASON_NONE);
        let before = namer.name(open, &Fake::new(), &clock);
        namer.renew(1);
        assert_eq!(
            namer.name(open, &Fake::new(), &clock).places(),
            before.places()
        );
        namer.renew(2);
        let mut others = Fake::new();
        others.rename_cart();
        let after = namer.name(open, &others, &clock);
        assert_eq!(after.places()[0], before.places()[0]);
        assert_ne!(after.places()[1], before.places()[1]);
        assert_eq!(after.destination().pod, "another");
    }
}
