//! Requests, and policies that are about them.

use std::collections::BTreeMap;

use super::Random;
use crate::evaluate::Request;
use crate::object::{
    Action, AuthorizationPolicy, AuthorizationRule, Cluster, Condition, Operation, To,
};

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];
const HOSTS: [&str; 4] = [
    "example.com",
    "API.example.com",
    "other.org",
    "example.com:8080",
];
const PATHS: [&str; 6] = ["/", "/info", "/info/x", "/admin", "/admin/info", "/x.png"];
const TEAMS: [&str; 3] = ["blue", "blue-1", "red"];
const HEADER: &str = "x-team";

/// A request to whatever.
pub fn request(random: &mut Random) -> Request {
    let mut headers = BTreeMap::new();
    if !random.one_in(3) {
        headers.insert(HEADER.to_owned(), random.pick(&TEAMS).to_owned());
    }
    if random.one_in(2) {
        headers.insert("user-agent".to_owned(), "curl/8".to_owned());
    }
    Request {
        method: random.pick(&METHODS).to_owned(),
        host: random.pick(&HOSTS).to_owned(),
        path: random.pick(&PATHS).to_owned(),
        headers,
    }
}

/// Has most of the rules ask about requests, and few policies refuse everything.
pub fn ask_about_requests(random: &mut Random, cluster: &mut Cluster) {
    for policy in &mut cluster.authorization_policies {
        if policy.spec.action == Some(Action::Custom) {
            policy.spec.action = None;
            policy.spec.provider = None;
        }
        widen(random, policy);
        for rule in policy.spec.rules.iter_mut().flatten() {
            if !random.one_in(4) {
                about_requests(random, rule);
            }
        }
    }
}

/// A rule more, and one without conditions on who asks.
fn widen(random: &mut Random, policy: &mut AuthorizationPolicy) {
    let rules = policy.spec.rules.get_or_insert_default();
    if let Some(rule) = rules.first_mut() {
        rule.from = None;
    }
    if random.one_in(2) {
        rules.push(AuthorizationRule {
            to: Some(vec![To {
                operation: operation(random),
            }]),
            ..Default::default()
        });
    }
}

fn about_requests(random: &mut Random, rule: &mut AuthorizationRule) {
    if random.one_in(3) {
        let pattern = |random: &mut Random| pattern(random, &TEAMS);
        let has = random.one_in(2);
        rule.when.get_or_insert_default().push(Condition {
            key: format!("request.headers[{HEADER}]"),
            values: random.many(usize::from(has)..=2, pattern),
            not_values: random.many(usize::from(!has)..=1, pattern),
        });
        let when = rule.when.as_mut();
        when.into_iter().for_each(|all| {
            all.retain(|c| !(c.values.is_empty() && c.not_values.is_empty()));
        });
        return;
    }
    rule.to = Some(random.many(1..=2, |r| To {
        operation: operation(r),
    }));
}

fn operation(random: &mut Random) -> Operation {
    let mut operation = Operation::default();
    for _ in 0..random.number(1..=2) {
        match random.number(0..=5) {
            0 => operation.methods = random.many(1..=2, |r| pattern(r, &METHODS)),
            1 => operation.not_methods = random.many(1..=2, |r| pattern(r, &METHODS)),
            2 => operation.hosts = random.many(1..=2, |r| pattern(r, &HOSTS)),
            3 => operation.not_hosts = random.many(1..=1, |r| pattern(r, &HOSTS)),
            4 => operation.paths = random.many(1..=2, |r| pattern(r, &PATHS)),
            _ => operation.not_paths = random.many(1..=2, |r| pattern(r, &PATHS)),
        }
    }
    operation
}

/// The value, its beginning, its end, or whatever there is.
fn pattern(random: &mut Random, values: &[&str]) -> String {
    let value = random.pick(values);
    let half = value.len() / 2;
    match random.number(0..=6) {
        0 => "*".to_owned(),
        1 => format!("{}*", &value[..half]),
        2 => format!("*{}", &value[half..]),
        _ => value.to_owned(),
    }
}
