//! Every identity there is, found by what policies ask about.

use std::collections::HashMap;

use weft_proto::model::policy::{Cidr, PeerKind};

use super::bits::Bits;
use super::cidrs::contains;
use super::compile::{Fact, Logic, Text, Tree, Tri};
use super::subject::{Class, Subject};
use crate::tables::policy::IdentityNumber;

type Facet<K> = HashMap<K, Bits>;

/// The slot of the world outside: whoever is in no prefix and no workload.
pub(crate) const WORLD: usize = 0;

/// Identities by slot, a small number that is used again; and for each value that policies can ask for, who has it.
#[derive(Debug)]
pub(crate) struct Universe {
    slots: Vec<Option<(IdentityNumber, Class)>>,
    live: Bits,
    free: Vec<usize>,
    kinds: Facet<PeerKind>,
    namespaces: Facet<String>,
    service_accounts: Facet<String>,
    spiffe_ids: Facet<String>,
    labels: HashMap<String, Facet<String>>,
    port_names: Facet<String>,
    cidrs: Facet<Cidr>,
}

/// For which slots a condition holds, and for which it may hold.
#[derive(Clone, Debug)]
pub(crate) struct Planes {
    yes: Bits,
    possible: Bits,
    end: usize,
}

impl Universe {
    /// With nothing in it but the world.
    pub(crate) fn new() -> Self {
        let mut universe = Self {
            slots: Vec::new(),
            live: Bits::default(),
            free: Vec::new(),
            kinds: HashMap::new(),
            namespaces: HashMap::new(),
            service_accounts: HashMap::new(),
            spiffe_ids: HashMap::new(),
            labels: HashMap::new(),
            port_names: HashMap::new(),
            cidrs: HashMap::new(),
        };
        let world = Class {
            subject: Subject::external().into(),
            cidr: None,
        };
        universe.add(IdentityNumber::WORLD, world);
        universe
    }

    /// Takes an identity in; returns its slot.
    pub(crate) fn add(&mut self, number: IdentityNumber, class: Class) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.live.insert(slot);
        self.visit(&class, &mut |bits| bits.insert(slot));
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some((number, class));
        }
        slot
    }

    pub(crate) fn remove(&mut self, slot: usize) {
        if let Some((_, class)) = self.slots.get_mut(slot).and_then(Option::take) {
            self.live.remove(slot);
            self.free.push(slot);
            self.visit(&class, &mut |bits| bits.remove(slot));
            self.forget_empty(&class);
        }
    }

    /// The same identity is within another prefix from now on.
    pub(crate) fn set_cidr(&mut self, slot: usize, cidr: Option<Cidr>) {
        let Some(Some((_, class))) = self.slots.get_mut(slot) else {
            return;
        };
        let old = std::mem::replace(&mut class.cidr, cidr);
        if let Some(old) = old
            && let Some(bits) = self.cidrs.get_mut(&old)
        {
            bits.remove(slot);
            if bits.is_empty() {
                self.cidrs.remove(&old);
            }
        }
        if let Some(cidr) = cidr {
            self.cidrs.entry(cidr).or_default().insert(slot);
        }
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&(IdentityNumber, Class)> {
        self.slots.get(slot)?.as_ref()
    }

    /// All slots are below.
    pub(crate) fn end(&self) -> usize {
        self.slots.len()
    }

    pub(crate) const fn live(&self) -> &Bits {
        &self.live
    }

    pub(crate) fn with_port_name(&self, name: &str) -> Bits {
        self.port_names.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn ask(&self, condition: &Tree<Fact>) -> Planes {
        let constant = |value| Planes::constant(value, self.end());
        condition.answer(&constant, &|fact| {
            let yes = self.having(fact);
            Planes {
                possible: yes.clone(),
                yes,
                end: self.end(),
            }
        })
    }

    /// As [`Fact::holds`] says of each class.
    fn having(&self, fact: &Fact) -> Bits {
        match fact {
            Fact::Address(cidr) => union(&self.cidrs, |inner| contains(cidr, inner)),
            Fact::Namespace(text) => matching(&self.namespaces, text),
            Fact::ServiceAccount(text) => matching(&self.service_accounts, text),
            Fact::SpiffeId(text) => matching(&self.spiffe_ids, text),
            Fact::Label(key, text) => match (self.labels.get(key), text) {
                (None, _) => Bits::default(),
                (Some(values), Some(text)) => matching(values, text),
                (Some(values), None) => union(values, |_| true),
            },
            Fact::Kind(kind) => self.kinds.get(kind).cloned().unwrap_or_default(),
        }
    }

    /// Every set that a slot of this class is in.
    fn visit(&mut self, class: &Class, change: &mut impl FnMut(&mut Bits)) {
        let subject = &class.subject;
        change(self.kinds.entry(subject.kind).or_default());
        if subject.kind == PeerKind::Pod {
            change(entry(&mut self.namespaces, &subject.namespace));
            change(entry(&mut self.service_accounts, &subject.service_account));
        }
        if !subject.spiffe_id.is_empty() {
            change(entry(&mut self.spiffe_ids, &subject.spiffe_id));
        }
        for (key, value) in &subject.labels {
            change(entry(self.labels.entry(key.clone()).or_default(), value));
        }
        for name in subject.ports.keys() {
            change(entry(&mut self.port_names, name));
        }
        if let Some(cidr) = class.cidr {
            change(self.cidrs.entry(cidr).or_default());
        }
    }

    fn forget_empty(&mut self, class: &Class) {
        let subject = &class.subject;
        forget(&mut self.namespaces, &subject.namespace);
        forget(&mut self.service_accounts, &subject.service_account);
        forget(&mut self.spiffe_ids, &subject.spiffe_id);
        for (key, value) in &subject.labels {
            if let Some(values) = self.labels.get_mut(key) {
                forget(values, value);
                if values.is_empty() {
                    self.labels.remove(key);
                }
            }
        }
        for name in subject.ports.keys() {
            forget(&mut self.port_names, name);
        }
        if let Some(cidr) = class.cidr
            && self.cidrs.get(&cidr).is_some_and(Bits::is_empty)
        {
            self.cidrs.remove(&cidr);
        }
    }
}

impl Planes {
    fn constant(value: Tri, end: usize) -> Self {
        let on = |holds: bool| {
            if holds {
                Bits::all(end)
            } else {
                Bits::default()
            }
        };
        Self {
            yes: on(value == Tri::Yes),
            possible: on(value != Tri::No),
            end,
        }
    }

    pub(crate) fn at(&self, slot: usize) -> Tri {
        match (self.yes.has(slot), self.possible.has(slot)) {
            (true, _) => Tri::Yes,
            (false, true) => Tri::Maybe,
            (false, false) => Tri::No,
        }
    }

    /// Where the answer is another than this.
    pub(crate) fn differing(self, from: Tri) -> Bits {
        match from {
            Tri::No => self.possible,
            Tri::Yes => self.yes.complement(self.end),
            Tri::Maybe => {
                let mut bits = self.possible.complement(self.end);
                bits.add(&self.yes);
                bits
            }
        }
    }
}

impl Logic for Planes {
    fn and(mut self, other: Self) -> Self {
        self.yes.keep(&other.yes);
        self.possible.keep(&other.possible);
        self
    }

    fn or(mut self, other: Self) -> Self {
        self.yes.add(&other.yes);
        self.possible.add(&other.possible);
        self
    }

    fn not(self) -> Self {
        Self {
            yes: self.possible.complement(self.end),
            possible: self.yes.complement(self.end),
            end: self.end,
        }
    }
}

fn matching(facet: &Facet<String>, text: &Text) -> Bits {
    match text.only() {
        Some(value) => facet.get(value).cloned().unwrap_or_default(),
        None => union(facet, |value| text.matches(value)),
    }
}

fn union<K>(facet: &Facet<K>, wanted: impl Fn(&K) -> bool) -> Bits {
    let mut all = Bits::default();
    for (value, bits) in facet {
        if wanted(value) {
            all.add(bits);
        }
    }
    all
}

fn entry<'a>(facet: &'a mut Facet<String>, value: &str) -> &'a mut Bits {
    facet.entry(value.to_owned()).or_default()
}

fn forget(facet: &mut Facet<String>, value: &str) {
    if facet.get(value).is_some_and(Bits::is_empty) {
        facet.remove(value);
    }
}
