//! AuthorizationPolicies.

use super::network_policy::metadata;
use super::selector::labels;
use super::{Random, cidr, cluster, pool};
use crate::object::{
    Action, AuthorizationPolicy, AuthorizationPolicySpec, AuthorizationRule, Cluster, Condition,
    From, Operation, Provider, Source, To, WorkloadSelector,
};

/// Adds one, or replaces the one of that name.
pub(super) fn add(random: &mut Random, cluster: &mut Cluster) {
    let metadata = metadata(random, Some(&pool::NAMESPACES));
    let policies = &mut cluster.authorization_policies;
    policies.retain(|p| {
        (&p.metadata.namespace, &p.metadata.name) != (&metadata.namespace, &metadata.name)
    });
    policies.push(AuthorizationPolicy {
        metadata,
        spec: spec(random),
    });
}

fn spec(random: &mut Random) -> AuthorizationPolicySpec {
    let action = random.pick(&[
        None,
        Some(Action::Allow),
        Some(Action::Allow),
        Some(Action::Deny),
        Some(Action::Deny),
        Some(Action::Deny),
        Some(Action::Audit),
        Some(Action::Custom),
    ]);
    AuthorizationPolicySpec {
        selector: random.unless_one_in(3, |r| WorkloadSelector {
            match_labels: r.unless_one_in(4, labels),
        }),
        action,
        provider: (action == Some(Action::Custom)).then(|| Provider {
            name: "ext-authz".to_owned(),
        }),
        rules: random.unless_one_in(8, |r| r.many(0..=3, rule)),
    }
}

fn rule(random: &mut Random) -> AuthorizationRule {
    AuthorizationRule {
        from: random.unless_one_in(3, |r| r.many(0..=2, |r| From { source: source(r) })),
        to: random.unless_one_in(2, |r| {
            r.many(0..=2, |r| To {
                operation: operation(r),
            })
        }),
        when: random.unless_one_in(2, |r| r.many(0..=2, condition)),
    }
}

/// At least one field.
fn source(random: &mut Random) -> Source {
    let mut source = Source::default();
    for _ in 0..random.number(1..=3) {
        match random.number(0..=11) {
            10 if !names_peers(&source) => source.service_accounts = random.many(1..=2, account),
            11 if !names_peers(&source) => {
                source.not_service_accounts = random.many(1..=2, account);
            }
            _ if has_accounts(&source) => source.ip_blocks = random.many(1..=2, block),
            0 | 1 => source.principals = random.many(1..=2, principal),
            2 => source.not_principals = random.many(1..=2, principal),
            3 => source.namespaces = random.many(1..=2, namespace),
            4 => source.not_namespaces = random.many(1..=2, namespace),
            5 | 6 => source.ip_blocks = random.many(1..=2, block),
            7 | 8 => source.not_ip_blocks = random.many(1..=2, block),
            _ => match random.number(0..=3) {
                0 => source.request_principals = vec!["*".to_owned()],
                1 => source.not_request_principals = vec!["*".to_owned()],
                2 => source.remote_ip_blocks = vec![block(random)],
                _ => source.not_remote_ip_blocks = vec![block(random)],
            },
        }
    }
    source
}

/// "Cannot be set together with principals or namespaces."
fn has_accounts(source: &Source) -> bool {
    !source.service_accounts.is_empty() || !source.not_service_accounts.is_empty()
}

fn names_peers(source: &Source) -> bool {
    [
        &source.principals,
        &source.not_principals,
        &source.namespaces,
        &source.not_namespaces,
    ]
    .iter()
    .any(|list| !list.is_empty())
}

/// At least one field.
fn operation(random: &mut Random) -> Operation {
    let mut operation = Operation::default();
    for _ in 0..random.number(1..=2) {
        match random.number(0..=8) {
            0..=3 => operation.ports = random.many(1..=3, port),
            4..=6 => operation.not_ports = random.many(1..=3, port),
            7 => operation.methods = vec!["GET".to_owned()],
            _ => match random.number(0..=4) {
                0 => operation.hosts = vec!["*.example.com".to_owned()],
                1 => operation.not_hosts = vec!["example.com".to_owned()],
                2 => operation.not_methods = vec!["POST".to_owned()],
                3 => operation.paths = vec!["/info*".to_owned()],
                _ => operation.not_paths = vec!["/admin".to_owned()],
            },
        }
    }
    operation
}

/// Values, other values that must not be, or both.
fn condition(random: &mut Random) -> Condition {
    let (key, make): (&str, fn(&mut Random) -> String) = match random.number(0..=11) {
        0 | 1 => ("source.ip", block),
        10 => ("source.serviceAccount", account),
        2 | 3 => ("source.namespace", namespace),
        4 | 5 => ("source.principal", principal),
        6 | 7 => ("destination.ip", block),
        8 | 9 => ("destination.port", port),
        _ => ("request.headers[user-agent]", |_| "curl*".to_owned()),
    };
    let kind = random.number(0..=3);
    Condition {
        key: key.to_owned(),
        values: random.many(if kind == 0 { 0..=0 } else { 1..=2 }, make),
        not_values: random.many(if kind <= 1 { 1..=2 } else { 0..=0 }, make),
    }
}

fn principal(random: &mut Random) -> String {
    let namespace = random.pick(&pool::NAMESPACES);
    let account = random.pick(&pool::ACCOUNTS);
    match random.number(0..=5) {
        0 => "*".to_owned(),
        1 => format!("cluster.local/ns/{namespace}*"),
        2 => format!("*/sa/{account}"),
        _ => format!("cluster.local/ns/{namespace}/sa/{account}"),
    }
}

fn account(random: &mut Random) -> String {
    let account = random.pick(&pool::ACCOUNTS);
    match random.one_in(3) {
        true => account.to_owned(),
        false => format!("{}/{account}", random.pick(&pool::NAMESPACES)),
    }
}

fn namespace(random: &mut Random) -> String {
    let namespace = random.pick(&pool::NAMESPACES);
    match random.number(0..=5) {
        0 => "*".to_owned(),
        1 => format!("{}*", &namespace[..2]),
        2 => format!("*{}", &namespace[2..]),
        _ => namespace.to_owned(),
    }
}

/// A CIDR or a single address.
fn block(random: &mut Random) -> String {
    if random.one_in(3) {
        cluster::any_address(random).to_string()
    } else {
        cidr::cidr(random)
    }
}

fn port(random: &mut Random) -> String {
    random.pick(&pool::PORTS).to_string()
}
