//! Random policies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use weft_proto::model::policy::{
    Cidr, Direction, Effect, Expr, IpProtocol, LabelCondition, LabelRequirement, Match, Mode,
    ObjectRef, Pattern, PeerKind, Policy, Rule, Selector, StringMatch, Tier,
};

fn text() -> impl Strategy<Value = StringMatch> {
    let pattern = prop_oneof![
        ".{0,6}".prop_map(Pattern::Exact),
        ".{0,6}".prop_map(Pattern::Prefix),
        ".{0,6}".prop_map(Pattern::Suffix),
        ".{0,6}".prop_map(Pattern::Contains),
        "[a-z]{0,3}\\.\\*".prop_map(Pattern::Regex),
    ];
    (pattern, any::<bool>()).prop_map(|(pattern, ignore_case)| StringMatch {
        ignore_case: ignore_case && !matches!(pattern, Pattern::Regex(_)),
        pattern,
    })
}

pub(crate) fn cidr() -> impl Strategy<Value = Cidr> {
    prop_oneof![
        (any::<u32>(), 0u8..=32)
            .prop_map(|(n, prefix)| (IpAddr::V4(Ipv4Addr::from_bits(n)), prefix)),
        (any::<u128>(), 0u8..=128)
            .prop_map(|(n, prefix)| (IpAddr::V6(Ipv6Addr::from_bits(n)), prefix)),
    ]
    .prop_filter_map("a prefix that the address has", |(address, prefix)| {
        Cidr::new(address, prefix)
    })
}

fn anywhere() -> impl Strategy<Value = Match> {
    let kind = prop_oneof![
        Just(PeerKind::Pod),
        Just(PeerKind::Node),
        Just(PeerKind::External)
    ];
    prop_oneof![
        cidr().prop_map(Match::Address),
        text().prop_map(Match::Namespace),
        text().prop_map(Match::ServiceAccount),
        (".{0,6}", option::of(text())).prop_map(|(key, value)| Match::Label(key, value)),
        text().prop_map(Match::SpiffeId),
        kind.prop_map(Match::Kind),
        ".{0,6}".prop_map(Match::Layer7),
    ]
}

fn destination() -> impl Strategy<Value = Match> {
    let protocol = prop_oneof![
        Just(IpProtocol::Tcp),
        Just(IpProtocol::Udp),
        Just(IpProtocol::Sctp),
        Just(IpProtocol::Icmp)
    ];
    prop_oneof![
        anywhere(),
        (any::<u16>(), any::<u16>()).prop_map(|(a, b)| Match::Ports(a.min(b), a.max(b))),
        "[a-z]{1,5}".prop_map(Match::PortName),
        protocol.prop_map(Match::Protocol),
    ]
}

fn tree(leaf: impl Strategy<Value = Match> + 'static) -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![Just(Expr::Any), leaf.prop_map(Expr::Is)];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            // Empty ones have no form of their own on the wire.
            vec(inner.clone(), 1..4).prop_map(Expr::All),
            vec(inner.clone(), 1..4).prop_map(Expr::OneOf),
            inner.prop_map(|e| Expr::Not(Box::new(e))),
        ]
    })
}

fn requirement() -> impl Strategy<Value = LabelRequirement> {
    let values = || btree_set("[a-z]{0,3}", 1..4);
    let is = prop_oneof![
        values().prop_map(LabelCondition::In),
        values().prop_map(LabelCondition::NotIn),
        Just(LabelCondition::Exists),
        Just(LabelCondition::DoesNotExist),
    ];
    ("[a-z/.]{1,8}", is).prop_map(|(key, is)| LabelRequirement { key, is })
}

fn tier_and_effect() -> impl Strategy<Value = (Tier, Effect)> {
    prop_oneof![
        Just((Tier::Admin, Effect::Pass)),
        Just((Tier::Admin, Effect::Deny)),
        Just((Tier::Baseline, Effect::Allow)),
        Just((Tier::Namespace, Effect::Allow)),
        Just((Tier::Mesh, Effect::Allow)),
        Just((Tier::Mesh, Effect::Deny)),
    ]
}

/// Any policy that can be sent.
pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    let rule = (tree(anywhere()), tree(destination())).prop_map(|(source, destination)| Rule {
        source,
        destination,
    });
    let selector = (
        option::of(btree_set("[a-z]{1,4}", 0..3)),
        vec(requirement(), 0..3),
    )
        .prop_map(|(namespaces, labels)| Selector { namespaces, labels });
    (
        ".+",
        ["[A-Za-z]*", "[a-z]*", "[a-z]*"],
        selector,
        any::<bool>(),
        tier_and_effect(),
        any::<u32>(),
        any::<bool>(),
        btree_map(".{0,6}", rule, 0..4),
    )
        .prop_map(
            |(name, origin, selector, egress, (tier, effect), priority, audit, rules)| {
                let [kind, namespace, object] = origin;
                Policy {
                    name,
                    origin: ObjectRef {
                        kind,
                        namespace,
                        name: object,
                    },
                    selector,
                    direction: if egress {
                        Direction::Egress
                    } else {
                        Direction::Ingress
                    },
                    tier,
                    priority,
                    mode: if audit { Mode::Audit } else { Mode::Enforce },
                    effect,
                    rules,
                }
            },
        )
}
