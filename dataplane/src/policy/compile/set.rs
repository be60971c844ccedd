//! A plan over all identities: which function of protocol and port holds for whom.
//!
//! Most identities differ from the world outside in few of a plan's conditions, if in any. So an identity goes by its *signature*,
//! the list of conditions that hold otherwise than for the world; each distinct signature is judged once, and who has the
//! world's own needs no entry.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::chain::{Asked, Decision, Hit, decide};
use super::fact::points_of_ports;
use super::plan::{Part, Plan};
use super::policy::{Atom, CompiledRule, PeerLeaf};
use super::steps::Steps;
use super::tree::Logic;
use super::tri::Tri;

use crate::policy::subject::{Class, NamedPorts};
use crate::policy::universe::{Universe, WORLD};
use crate::tables::policy::{IdentityNumber, NodePart, RuleReason, Verdict};

/// What an atom says of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Value {
    Is(Tri),
    Ports(NamedPorts),
}

/// After all atoms of any plan: it is this node, and its address is IPv4, IPv6, or of any family. Only where the plan asks Envoy.
const IS_HOST: usize = usize::MAX;

/// Place of an atom in a plan, and its value.
type Signature = Vec<(usize, Value)>;

/// A rule of a plan.
#[derive(Clone, Copy, Debug)]
struct Place {
    part: usize,
    rule: usize,
    /// Of the rule's first atom.
    atom: usize,
}

/// Index of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FunctionIndex(pub(crate) usize);

/// The function of those who have none of their own.
pub(crate) const DEFAULT: FunctionIndex = FunctionIndex(0);

/// Functions of one plan.
#[derive(Debug)]
pub(crate) struct CompiledSet {
    plan: Arc<Plan>,
    places: Vec<Place>,
    /// Rule of each atom, as index in `places`.
    rule_of: Vec<usize>,
    /// What each atom says of the world.
    world: Vec<Value>,
    /// Rules that may match the world, as indices in `places`.
    world_rules: Vec<usize>,
    functions: Vec<Steps<Decision>>,
    known: HashMap<Steps<Decision>, FunctionIndex>,
    judged: HashMap<Signature, FunctionIndex>,
}

impl CompiledSet {
    /// The functions of `plan`, and the identities that have another than [`DEFAULT`].
    pub(crate) fn new(
        plan: Arc<Plan>,
        universe: &Universe,
    ) -> (Self, HashMap<IdentityNumber, FunctionIndex>) {
        let mut set = Self::empty(plan, universe);
        let mut peers = HashMap::new();
        for (slot, signature) in set.signatures(universe) {
            let function = set.function(signature);
            if function != DEFAULT
                && let Some((number, _)) = universe.get(slot)
            {
                peers.insert(*number, function);
            }
        }
        (set, peers)
    }

    pub(crate) const fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// In order of their indices; later calls may only add some.
    pub(crate) fn functions(&self) -> &[Steps<Decision>] {
        &self.functions
    }

    /// The function for an identity that was not there when the set was compiled.
    pub(crate) fn learn(&mut self, class: &Class) -> FunctionIndex {
        let mut signature = Vec::new();
        for (atom, (rule, world)) in self.rule_of.iter().zip(&self.world).enumerate() {
            if let Some(place) = self.places.get(*rule)
                && let Some(asked) = rule_at(&self.plan, *place).atoms.get(atom - place.atom)
            {
                let value = asked.value(class);
                if value != *world {
                    signature.push((atom, value));
                }
            }
        }
        if self.plan.asks_proxy() && is_host(class) {
            signature.push((IS_HOST, Value::Is(is_v4(class))));
        }
        self.function(signature)
    }

    fn empty(plan: Arc<Plan>, universe: &Universe) -> Self {
        let mut places = Vec::new();
        let mut rule_of = Vec::new();
        for (part, Part { policy, .. }) in plan.parts.iter().enumerate() {
            for (rule, compiled) in policy.rules.iter().enumerate() {
                let atom = rule_of.len();
                rule_of.extend(compiled.atoms.iter().map(|_| places.len()));
                places.push(Place { part, rule, atom });
            }
        }
        let mut set = Self {
            plan,
            places,
            rule_of,
            world: Vec::new(),
            world_rules: Vec::new(),
            functions: Vec::new(),
            known: HashMap::new(),
            judged: HashMap::new(),
        };
        if let Some((_, world)) = universe.get(WORLD) {
            let rules = set.places.iter().map(|place| rule_at(&set.plan, *place));
            let atoms = rules.flat_map(|rule| &rule.atoms);
            set.world = atoms.map(|atom| atom.value(world)).collect();
        }
        let nothing = Signature::new();
        set.world_rules = (0..set.places.len())
            .filter(|rule| set.matches(*rule, &nothing).as_constant() != Some(Tri::No))
            .collect();
        // The world's own comes first: it is the default.
        set.function(nothing);
        set
    }

    /// Slots whose signature is not the world's.
    fn signatures(&self, universe: &Universe) -> Vec<(usize, Signature)> {
        let mut signatures: Vec<Signature> = vec![Signature::new(); universe.end()];
        let mut different = BTreeSet::new();
        for place in &self.places {
            let rule = rule_at(&self.plan, *place);
            for (atom, asked) in rule.atoms.iter().enumerate() {
                let atom = place.atom + atom;
                let Some(world) = self.world.get(atom) else {
                    continue;
                };
                asked.differing(*world, universe, |slot, value| {
                    if let Some(signature) = signatures.get_mut(slot) {
                        signature.push((atom, value));
                        different.insert(slot);
                    }
                });
            }
        }
        let live = universe.live().iter();
        for slot in live.filter(|_| self.plan.asks_proxy()) {
            if let Some((_, class)) = universe.get(slot)
                && is_host(class)
                && let Some(signature) = signatures.get_mut(slot)
            {
                signature.push((IS_HOST, Value::Is(is_v4(class))));
                different.insert(slot);
            }
        }
        let mut take = |slot: usize| signatures.get_mut(slot).map(std::mem::take);
        different
            .into_iter()
            .filter_map(|slot| Some((slot, take(slot)?)))
            .collect()
    }

    fn function(&mut self, signature: Signature) -> FunctionIndex {
        if let Some(function) = self.judged.get(&signature) {
            return *function;
        }
        let decided = self.judge(&signature);
        let next = FunctionIndex(self.functions.len());
        let function = *self.known.entry(decided.clone()).or_insert(next);
        if function == next {
            self.functions.push(decided);
        }
        self.judged.insert(signature, function);
        function
    }

    fn judge(&self, signature: &Signature) -> Steps<Decision> {
        let own = signature
            .iter()
            .filter_map(|(atom, _)| self.rule_of.get(*atom));
        let rules: BTreeSet<usize> = self.world_rules.iter().chain(own).copied().collect();
        let mut asked: Vec<Asked<'_>> = self
            .plan
            .parts
            .iter()
            .map(|part| (&*part.policy, None))
            .collect();
        for rule in rules {
            let Some(place) = self.places.get(rule) else {
                continue;
            };
            let matches = self.matches(rule, signature);
            if matches.as_constant() == Some(Tri::No) {
                continue;
            }
            let rule = rule_at(&self.plan, *place);
            let (rule, told_by_proxy) = (rule.id, rule.told_by_proxy);
            let hits = matches.map(|matches| match matches {
                Tri::No => Hit::NONE,
                matches => Hit {
                    matches,
                    told_by_proxy,
                    rule,
                },
            });
            if let Some((policy, all)) = asked.get_mut(place.part) {
                let effect = policy.effect;
                *all = Some(match all.take() {
                    Some(earlier) => earlier.zip(&hits, |a, b| a.or(b, effect)),
                    None => hits,
                });
            }
        }
        let decided = decide(&asked, self.plan.default);
        match signature.last() {
            Some((IS_HOST, Value::Is(is_v4))) => self.ask_for_host(&decided, *is_v4),
            _ => decided,
        }
    }

    /// The node reaches its pods whatever policies say, but not round Envoy: where one asks about requests, of whomever, Envoy is asked
    /// in place of a refusal.
    fn ask_for_host(&self, decided: &Steps<Decision>, is_v4: Tri) -> Steps<Decision> {
        let mut asking = Steps::constant(0);
        for Part { policy, own } in &self.plan.parts {
            let rules = policy.rules.iter().zip(own);
            for (rule, own) in rules.filter(|(rule, _)| rule.asks_proxy) {
                let families = match is_v4 {
                    Tri::Yes => [Some(&own.v4), None],
                    Tri::No => [None, Some(&own.v6)],
                    Tri::Maybe => [Some(&own.v4), Some(&own.v6)],
                };
                for family in families.into_iter().flatten() {
                    asking = asking.zip(family, |known, matches| match (known, matches) {
                        (0, Tri::Maybe | Tri::Yes) => rule.id,
                        _ => known,
                    });
                }
            }
        }
        decided.zip(&asking, |decision, rule| {
            if rule == 0 || decision.verdict != Verdict::Deny {
                return decision;
            }
            Decision {
                verdict: Verdict::Proxy,
                reason: RuleReason::Layer7,
                rule,
                audit: 0,
            }
        })
    }

    /// Where a rule matches a peer with this signature.
    fn matches(&self, rule: usize, signature: &Signature) -> Steps<Tri> {
        let Some(place) = self.places.get(rule) else {
            return Steps::constant(Tri::No);
        };
        let value = |atom: usize| {
            let own = signature.binary_search_by_key(&atom, |(atom, _)| *atom);
            let own = own.ok().and_then(|at| signature.get(at));
            own.map_or_else(|| self.world.get(atom).copied(), |(_, value)| Some(*value))
        };
        let compiled = rule_at(&self.plan, *place);
        let peer = compiled.peer.answer(&Steps::constant, &|leaf| match leaf {
            PeerLeaf::Points(steps) => steps.clone(),
            PeerLeaf::Atom(atom) => match value(place.atom + atom) {
                Some(Value::Is(tri)) => Steps::constant(tri),
                Some(Value::Ports(ports)) => points_of_ports(ports),
                None => Steps::constant(Tri::Maybe),
            },
        });
        if peer.as_constant() == Some(Tri::No) {
            return peer;
        }
        let Some(own) = self
            .plan
            .parts
            .get(place.part)
            .and_then(|part| part.own.get(place.rule))
        else {
            return Steps::constant(Tri::No);
        };
        let family = compiled
            .by_family
            .then(|| value(place.atom + compiled.atoms.len() - 1));
        let own = match family {
            None | Some(Some(Value::Is(Tri::Yes))) => own.v4.clone(),
            Some(Some(Value::Is(Tri::No))) => own.v6.clone(),
            _ => own
                .v4
                .zip(&own.v6, |v4, v6| if v4 == v6 { v4 } else { Tri::Maybe }),
        };
        peer.and(own)
    }
}

fn rule_at(plan: &Plan, place: Place) -> &CompiledRule {
    &plan.parts[place.part].policy.rules[place.rule]
}

impl Atom {
    fn value(&self, class: &Class) -> Value {
        match self {
            Self::Facts(tree) => {
                Value::Is(tree.answer(&|value| value, &|fact| fact.holds(class).into()))
            }
            Self::PortName(name) => {
                Value::Ports(class.subject.ports.get(name).copied().unwrap_or_default())
            }
            Self::IsV4 => Value::Is(is_v4(class)),
        }
    }

    /// Visits every slot whose value is not the world's.
    fn differing(&self, world: Value, universe: &Universe, mut visit: impl FnMut(usize, Value)) {
        match (self, world) {
            (Self::Facts(tree), Value::Is(world)) => {
                let planes = universe.ask(tree);
                let mut slots = planes.clone().differing(world);
                slots.keep(universe.live());
                for slot in slots.iter() {
                    visit(slot, Value::Is(planes.at(slot)));
                }
            }
            (Self::PortName(name), _) => {
                for slot in universe.with_port_name(name).iter() {
                    if let Some((_, class)) = universe.get(slot) {
                        visit(slot, self.value(class));
                    }
                }
            }
            (Self::IsV4, _) | (Self::Facts(_), Value::Ports(_)) => {
                for slot in universe.live().iter() {
                    let value = universe.get(slot).map(|(_, class)| self.value(class));
                    if let Some(value) = value.filter(|value| *value != world) {
                        visit(slot, value);
                    }
                }
            }
        }
    }
}

fn is_host(class: &Class) -> bool {
    class.subject.node == NodePart::Host
}

fn is_v4(class: &Class) -> Tri {
    match class.cidr {
        Some(cidr) => cidr.address.is_ipv4().into(),
        None => Tri::Maybe,
    }
}
