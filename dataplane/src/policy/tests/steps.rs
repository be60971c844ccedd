//! Steps of random histories: pods, policies and mishaps as they come in a cluster's life.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use weft_proto::model::policy::{
    Direction, Effect, Expr, IpProtocol, LabelCondition, LabelRequirement, Match, Mode, ObjectRef,
    Pattern, PeerKind, Policy, Rule, Selector, StringMatch, Tier,
};
use weft_proto::model::{NamedPort, Workload};

use super::world::{HERE, cidr, ip, node, pod};

const CIDRS: [&str; 9] = [
    "0.0.0.0/0",
    "::/0",
    "10.0.0.0/8",
    "10.0.1.0/24",
    "10.0.1.2/31",
    "10.0.9.9/32",
    "192.0.2.0/24",
    "fd00::/16",
    "fd00:1::2/128",
];

/// Addresses that connections come from and go to; the first ones are pods'.
pub(super) const ADDRESSES: [&str; 16] = [
    "10.0.1.1",
    "10.0.1.2",
    "10.0.1.3",
    "10.0.2.4",
    "10.0.2.5",
    "10.0.2.6",
    "fd00:1::1",
    "fd00:1::2",
    "10.0.0.1",
    "10.0.0.2",
    "10.0.9.9",
    "192.0.2.7",
    "203.0.113.1",
    "fd00:2::1",
    "2001:db8::1",
    "10.0.1.200",
];

pub(super) const PODS: usize = 6;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Policy(Policy),
    NoPolicy(usize),
    Workload(Workload),
    NoWorkload(usize),
    Interface(usize, bool),
    Faults(Vec<Option<usize>>),
    /// The agent is killed during the next step, after so many operations.
    Kill(usize),
    Restart,
}

fn text(values: &'static [&'static str]) -> impl Strategy<Value = StringMatch> {
    let value = prop::sample::select(values).prop_map(str::to_owned);
    let pattern = (0..6, value).prop_map(|(kind, text)| match kind {
        0 => Pattern::Prefix(text.chars().take(1).collect()),
        1 => Pattern::Suffix(text.chars().rev().take(1).collect()),
        2 => Pattern::Contains(text),
        3 => Pattern::Regex(format!("{text}|{text}.*")),
        _ => Pattern::Exact(text),
    });
    (pattern, any::<bool>()).prop_map(|(pattern, ignore_case)| StringMatch {
        ignore_case: ignore_case && !matches!(pattern, Pattern::Regex(_)),
        pattern,
    })
}

fn fact() -> impl Strategy<Value = Match> {
    let key = prop::sample::select(vec!["app", "tier"]).prop_map(str::to_owned);
    let spiffe = text(&[
        "spiffe://mesh/ns/a/sa/default",
        "spiffe://mesh/ns/b/sa/default",
    ]);
    prop_oneof![
        4 => prop::sample::select(&CIDRS[..]).prop_map(|text| Match::Address(cidr(text))),
        3 => text(&["a", "b"]).prop_map(Match::Namespace),
        1 => text(&["default"]).prop_map(Match::ServiceAccount),
        4 => (key, prop::option::of(text(&["x", "y", "Xy"]))).prop_map(|(k, v)| Match::Label(k, v)),
        1 => spiffe.prop_map(Match::SpiffeId),
        2 => prop::sample::select(vec![PeerKind::Pod, PeerKind::Node, PeerKind::External])
            .prop_map(Match::Kind),
        1 => Just(Match::Layer7("header :path".to_owned())),
    ]
}

fn port() -> impl Strategy<Value = Match> {
    let protocol = prop::sample::select(vec![
        IpProtocol::Tcp,
        IpProtocol::Udp,
        IpProtocol::Sctp,
        IpProtocol::Icmp,
    ]);
    prop_oneof![
        3 => (0u16..5, 0u16..5).prop_map(|(a, n)| Match::Ports(79 + a, 79 + a + n)),
        1 => Just(Match::Ports(0, u16::MAX)),
        2 => protocol.prop_map(Match::Protocol),
        2 => prop::sample::select(vec!["http", "dns"]).prop_map(|n| Match::PortName(n.to_owned())),
    ]
}

fn expr(single: BoxedStrategy<Match>) -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![1 => Just(Expr::Any), 5 => single.prop_map(Expr::Is)];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Expr::All),
            vec(inner.clone(), 0..3).prop_map(Expr::OneOf),
            inner.prop_map(|e| Expr::Not(Box::new(e))),
        ]
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    let destination = prop_oneof![fact(), port()].boxed();
    (expr(fact().boxed()), expr(destination)).prop_map(|(source, destination)| Rule {
        source,
        destination,
    })
}

fn selector() -> impl Strategy<Value = Selector> {
    let namespaces = prop::option::of(btree_set(
        prop::sample::select(vec!["a", "b"]).prop_map(str::to_owned),
        0..3,
    ));
    let values = || {
        btree_set(
            prop::sample::select(vec!["x", "y"]).prop_map(str::to_owned),
            1..3,
        )
    };
    let condition = prop_oneof![
        values().prop_map(LabelCondition::In),
        values().prop_map(LabelCondition::NotIn),
        Just(LabelCondition::Exists),
        Just(LabelCondition::DoesNotExist),
    ];
    let requirement = condition.prop_map(|is| LabelRequirement {
        key: "app".to_owned(),
        is,
    });
    (namespaces, vec(requirement, 0..2))
        .prop_map(|(namespaces, labels)| Selector { namespaces, labels })
}

fn a_policy() -> impl Strategy<Value = Policy> {
    let tier = prop::sample::select(vec![
        Tier::Admin,
        Tier::Namespace,
        Tier::Baseline,
        Tier::Mesh,
    ]);
    let effect = prop::sample::select(vec![
        Effect::Allow,
        Effect::Allow,
        Effect::Deny,
        Effect::Pass,
    ]);
    let mode = prop_oneof![4 => Just(Mode::Enforce), 1 => Just(Mode::Audit)];
    let direction = prop::sample::select(vec![Direction::Egress, Direction::Ingress]);
    let rules = vec(rule(), 0..3);
    (
        (0usize..6, 0u32..2, tier, effect),
        (mode, direction, selector(), rules),
    )
        .prop_map(
            |((name, priority, tier, effect), (mode, direction, selector, rules))| Policy {
                name: format!("p{name}"),
                origin: ObjectRef::default(),
                selector,
                direction,
                tier,
                // Ignored elsewhere, and there the evaluator's order would be another.
                priority: match tier {
                    Tier::Admin | Tier::Baseline => priority,
                    Tier::Namespace | Tier::Mesh => 0,
                },
                mode,
                effect: match (tier, effect) {
                    (Tier::Namespace | Tier::Mesh, Effect::Pass) => Effect::Allow,
                    (_, effect) => effect,
                },
                rules: (0..).map(|i: u32| i.to_string()).zip(rules).collect(),
            },
        )
}

fn a_workload() -> impl Strategy<Value = Workload> {
    let labels = prop::sample::select(vec!["", "app=x", "app=y", "app=Xy,tier=x", "tier=y"]);
    let ports = prop::sample::select(vec![0, 80, 81, 53]);
    let namespace = prop::sample::select(vec!["a", "b"]);
    (0usize..PODS + 2, labels, ports, namespace, 0..8).prop_map(
        |(index, labels, port, namespace, place)| {
            if index >= PODS {
                let (name, address) = [(HERE, "10.0.0.1"), ("there", "10.0.0.2")][index - PODS];
                let mut node = node(name, address);
                node.labels = super::world::labels(labels);
                return node;
            }
            let mut pod = pod(&format!("{namespace}/{index}"), ADDRESSES[index], labels);
            pod.name = format!("pod/{index}");
            if index < 2 {
                pod.addresses.push(ip(ADDRESSES[PODS + index]));
            }
            if place == 0 || index >= 4 {
                pod.node = "there".to_owned();
            }
            if place == 1 && index == 5 {
                pod.host_network = true;
                pod.addresses = vec![ip("10.0.0.2")];
            }
            pod.ports = match port {
                0 => Vec::new(),
                port => [("http", IpProtocol::Tcp), ("dns", IpProtocol::Udp)]
                    .map(|(name, protocol)| NamedPort {
                        name: name.to_owned(),
                        port,
                        protocol,
                    })
                    .to_vec(),
            };
            pod
        },
    )
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => a_policy().prop_map(Step::Policy),
        2 => (0usize..6).prop_map(Step::NoPolicy),
        6 => a_workload().prop_map(Step::Workload),
        2 => (0usize..PODS).prop_map(Step::NoWorkload),
        3 => (0usize..PODS, any::<bool>()).prop_map(|(pod, there)| Step::Interface(pod, there)),
        2 => vec(prop::option::weighted(0.3, 0usize..4), 1..12).prop_map(Step::Faults),
        2 => (0usize..12).prop_map(Step::Kill),
        1 => Just(Step::Restart),
    ]
}
