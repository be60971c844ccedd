//! A policy, ready to be compiled into sets.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_proto::model::Policy;
use weft_proto::model::policy::{Cidr, Direction, Effect, Mode, Rule, Tier};

use super::fact::{End, Fact, Leaf, can_be_told, condition};
use super::steps::Steps;
use super::tree::Tree;
use super::tri::Tri;
use crate::policy::cidrs::{ALL_V4, ALL_V6};

/// A policy with its conditions sorted into what is about the selected workload and what is about its peer.
#[derive(Debug)]
pub(crate) struct CompiledPolicy {
    /// Another one for every version of every policy.
    pub(crate) version: u64,
    pub(crate) tier: Tier,
    pub(crate) mode: Mode,
    pub(crate) effect: Effect,
    /// Number of "selects, and none of its rules matches".
    pub(crate) selects: u32,
    pub(crate) rules: Vec<CompiledRule>,
    /// Whether Envoy may have to be asked what it says.
    pub(crate) asks_proxy: bool,
    /// Prefixes that identities have to know for its sake.
    pub(crate) cidrs: BTreeSet<Cidr>,
}

/// One way to match.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    /// Its number.
    pub(crate) id: u32,
    /// About the selected workload.
    pub(crate) own: Tree<Leaf>,
    /// About its peer.
    pub(crate) peer: Tree<PeerLeaf>,
    /// What `peer` asks about identities.
    pub(crate) atoms: Vec<Atom>,
    /// Whether Envoy can tell whatever the kernel cannot.
    pub(crate) told_by_proxy: bool,
    /// Whether Envoy may have to be asked about it.
    pub(crate) asks_proxy: bool,
    /// Whether `own` may differ between the workload's IPv4 and IPv6 addresses. Then the last atom is [`Atom::IsV4`].
    pub(crate) by_family: bool,
}

/// A single condition about the peer.
#[derive(Debug)]
pub(crate) enum PeerLeaf {
    /// Index in [`CompiledRule::atoms`].
    Atom(usize),
    /// About protocol and port alone.
    Points(Steps<Tri>),
}

/// What is asked about an identity, all at once.
#[derive(Debug)]
pub(crate) enum Atom {
    /// True, false or unknown whatever protocol and port.
    Facts(Tree<Fact>),
    /// Its ports of this name.
    PortName(String),
    /// Whether its addresses are IPv4: unknown unless all of both families is mentioned.
    IsV4,
}

static VERSIONS: AtomicU64 = AtomicU64::new(0);

impl CompiledPolicy {
    /// `number` gives a rule its number, by name.
    pub(crate) fn new(policy: &Policy, mut number: impl FnMut(&str) -> u32) -> Self {
        let rules: Vec<CompiledRule> = policy
            .rules
            .iter()
            .map(|(name, rule)| CompiledRule::new(number(name), rule, policy))
            .collect();
        let cidrs = rules.iter().flat_map(CompiledRule::cidrs).collect();
        Self {
            version: VERSIONS.fetch_add(1, Ordering::Relaxed),
            tier: policy.tier,
            mode: policy.mode,
            effect: policy.effect,
            asks_proxy: asks_proxy(policy),
            selects: number(crate::policy::rule_ids::SELECTS),
            rules,
            cidrs,
        }
    }

    /// Numbers of its rules, and of its selecting.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let rules = self.rules.iter().map(|rule| rule.id);
        rules.chain([self.selects])
    }
}

impl CompiledRule {
    fn new(id: u32, rule: &Rule, policy: &Policy) -> Self {
        let told_by_proxy = is_told_by_proxy(policy, rule);
        let source = condition(&rule.source, End::Source);
        let destination = condition(&rule.destination, End::Destination);
        let (own, peer) = match policy.direction {
            Direction::Egress => (source, destination),
            Direction::Ingress => (destination, source),
        };
        let mut atoms = Vec::new();
        let peer = gather(peer, &mut atoms);
        let mut by_family = false;
        own.leaves(&mut |leaf| by_family |= matches!(leaf, Leaf::Fact(Fact::Address(_))));
        if by_family {
            atoms.push(Atom::IsV4);
        }
        Self {
            id,
            own,
            peer,
            atoms,
            told_by_proxy,
            asks_proxy: policy.mode == Mode::Enforce && told_by_proxy && is_about_requests(rule),
            by_family,
        }
    }

    fn cidrs(&self) -> Vec<Cidr> {
        let mut cidrs = Vec::new();
        for atom in &self.atoms {
            match atom {
                Atom::Facts(tree) => tree.leaves(&mut |fact| {
                    if let Fact::Address(cidr) = fact {
                        cidrs.push(*cidr);
                    }
                }),
                Atom::PortName(_) => {}
                Atom::IsV4 => cidrs.extend([ALL_V4, ALL_V6]),
            }
        }
        cidrs
    }
}

/// Whether Envoy may have to be asked what this policy says. The audit of a policy changes nobody's path.
pub(crate) fn asks_proxy(policy: &Policy) -> bool {
    let mut rules = policy.rules.values();
    policy.mode == Mode::Enforce
        && rules.any(|rule| is_about_requests(rule) && is_told_by_proxy(policy, rule))
}

/// Whether Envoy can tell whatever the kernel cannot. It stands before the destination, and asks the mesh's policies alone.
fn is_told_by_proxy(policy: &Policy, rule: &Rule) -> bool {
    policy.direction == Direction::Ingress
        && policy.tier == Tier::Mesh
        && can_be_told(&rule.source, End::Source)
        && can_be_told(&rule.destination, End::Destination)
}

fn is_about_requests(rule: &Rule) -> bool {
    let mut found = false;
    for expr in [&rule.source, &rule.destination] {
        expr.matches(&mut |single| found |= single.is_of_request());
    }
    found
}

/// A tree in which facts that stand together are one atom.
fn gather(tree: Tree<Leaf>, atoms: &mut Vec<Atom>) -> Tree<PeerLeaf> {
    let tree = match only_facts(tree) {
        Ok(facts) => return atom(Atom::Facts(facts), atoms),
        Err(tree) => tree,
    };
    match tree {
        Tree::Constant(value) => Tree::Constant(value),
        Tree::Leaf(Leaf::Points(steps)) => Tree::Leaf(PeerLeaf::Points(steps)),
        Tree::Leaf(Leaf::PortName(name)) => atom(Atom::PortName(name), atoms),
        Tree::Leaf(Leaf::Fact(fact)) => atom(Atom::Facts(Tree::Leaf(fact)), atoms),
        Tree::All(list) => Tree::All(gather_list(list, Tree::All, atoms)),
        Tree::OneOf(list) => Tree::OneOf(gather_list(list, Tree::OneOf, atoms)),
        Tree::Not(tree) => Tree::Not(Box::new(gather(*tree, atoms))),
    }
}

fn gather_list(
    list: Vec<Tree<Leaf>>,
    join: impl FnOnce(Vec<Tree<Fact>>) -> Tree<Fact>,
    atoms: &mut Vec<Atom>,
) -> Vec<Tree<PeerLeaf>> {
    let (mut facts, mut rest) = (Vec::new(), Vec::new());
    for tree in list {
        match only_facts(tree) {
            Ok(tree) => facts.push(tree),
            Err(tree) => rest.push(gather(tree, atoms)),
        }
    }
    if !facts.is_empty() {
        rest.push(atom(Atom::Facts(join(facts)), atoms));
    }
    rest
}

fn atom(atom: Atom, atoms: &mut Vec<Atom>) -> Tree<PeerLeaf> {
    atoms.push(atom);
    Tree::Leaf(PeerLeaf::Atom(atoms.len() - 1))
}

/// The same tree if no port or protocol is in it and something is asked at all.
fn only_facts(tree: Tree<Leaf>) -> Result<Tree<Fact>, Tree<Leaf>> {
    let (mut facts, mut others) = (0, 0);
    tree.leaves(&mut |leaf| match leaf {
        Leaf::Fact(_) => facts += 1,
        Leaf::Points(_) | Leaf::PortName(_) => others += 1,
    });
    match (facts, others) {
        (1.., 0) => Ok(as_facts(tree)),
        _ => Err(tree),
    }
}

fn as_facts(tree: Tree<Leaf>) -> Tree<Fact> {
    let list = |list: Vec<Tree<Leaf>>| list.into_iter().map(as_facts).collect();
    match tree {
        Tree::Leaf(Leaf::Fact(fact)) => Tree::Leaf(fact),
        // The caller has seen that there are none.
        Tree::Leaf(Leaf::Points(_) | Leaf::PortName(_)) => Tree::Constant(Tri::Maybe),
        Tree::Constant(value) => Tree::Constant(value),
        Tree::All(all) => Tree::All(list(all)),
        Tree::OneOf(some) => Tree::OneOf(list(some)),
        Tree::Not(tree) => Tree::Not(Box::new(as_facts(*tree))),
    }
}
