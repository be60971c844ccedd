//! Istio's AuthorizationPolicy: its layer 4 part, and what it says of requests.
//!
//! <https://istio.io/latest/docs/reference/config/security/authorization-policy/>, conditions:
//! <https://istio.io/latest/docs/reference/config/security/conditions/>, what is layer 4:
//! <https://istio.io/latest/docs/ambient/usage/l4-policy/>.
//!
//! Istio takes a peer's identity from its certificate. Here it is the pod's that has the address.

use super::cidr::Cidr;
use super::{Counts, Party, Question, Request, Truth};
use crate::object::{Action, AuthorizationPolicy, AuthorizationRule, Condition, Operation, Source};

/// Policies of this namespace are for the whole mesh.
const ROOT_NAMESPACE: &str = "istio-system";
const TRUST_DOMAIN: &str = "cluster.local";

/// "1. If there are any CUSTOM policies that match the request, evaluate and deny the request if the evaluation result is deny.
/// 2. If there are any DENY policies that match the request, deny the request. 3. If there are no ALLOW policies for the workload,
/// allow the request. 4. If any of the ALLOW policies match the request, allow the request. 5. Deny the request." What AUDIT policies
/// match is let through "based solely on CUSTOM, DENY and ALLOW actions", and told: as if they were DENY policies that only tell.
///
/// What only a proxy could judge stays unknown unless the request is seen, and is refused: "it will fail safe by becoming a DENY policy".
pub(super) fn allows(question: &Question<'_>, counts: Counts) -> Truth {
    let selecting: Vec<&AuthorizationPolicy> = question
        .cluster
        .authorization_policies
        .iter()
        .filter(|policy| counts.contains(&policy.metadata) && selects(policy, question))
        .collect();
    let of = |action: Action| {
        selecting
            .iter()
            .filter(move |policy| policy.spec.action.unwrap_or(Action::Allow) == action)
    };
    let custom = Truth::any(of(Action::Custom).map(|policy| matches(policy, question)));
    let denied = Truth::any(of(Action::Deny).map(|policy| matches(policy, question)));
    let audited = match counts {
        Counts::Enforced => Truth::False,
        Counts::All => Truth::any(of(Action::Audit).map(|policy| matches(policy, question))),
    };
    let allowed = if of(Action::Allow).next().is_none() {
        Truth::True
    } else {
        Truth::any(of(Action::Allow).map(|policy| matches(policy, question)))
    };
    // What the server that CUSTOM names would answer is not known.
    let custom_refuses = custom.min(Truth::Unknown);
    Truth::all([!custom_refuses, !denied, !audited, allowed])
}

/// "The selector will match with workloads in the same namespace as the authorization policy. If the authorization policy is in the
/// root namespace, the selector will additionally match with workloads in all namespaces. If not set, the selector will match all
/// workloads": `selector`.
fn selects(policy: &AuthorizationPolicy, question: &Question<'_>) -> bool {
    let pod = &question.pod.metadata;
    let namespace = &policy.metadata.namespace;
    let labels = policy
        .spec
        .selector
        .iter()
        .filter_map(|selector| selector.match_labels.as_ref())
        .flatten();
    (namespace == ROOT_NAMESPACE || *namespace == pod.namespace)
        && labels
            .into_iter()
            .all(|(key, value)| pod.labels.get(key) == Some(value))
}

/// "A match occurs when at least one rule matches the request. If not set, the match will never occur": `rules`.
fn matches(policy: &AuthorizationPolicy, question: &Question<'_>) -> Truth {
    let rules = policy.spec.rules.iter().flatten();
    Truth::any(rules.map(|rule| rule_matches(rule, &policy.metadata.namespace, question)))
}

/// "A match occurs when at least one source, one operation and all conditions matches the request. An empty rule is always
/// matched": `Rule`.
fn rule_matches(rule: &AuthorizationRule, author: &str, question: &Question<'_>) -> Truth {
    let from = match rule.from.as_deref() {
        None | Some([]) => Truth::True,
        Some(from) => Truth::any(
            from.iter()
                .map(|f| is_source(&f.source, author, question.source)),
        ),
    };
    let to = match rule.to.as_deref() {
        None | Some([]) => Truth::True,
        Some(to) => Truth::any(to.iter().map(|t| is_operation(&t.operation, question))),
    };
    let when = rule.when.iter().flatten();
    let when = Truth::all(when.map(|condition| holds(condition, author, question)));
    Truth::all([from, to, when])
}

/// "Fields in the source are ANDed together": `Source`.
fn is_source(source: &Source, author: &str, party: &Party<'_>) -> Truth {
    let (principal, namespace) = (principal(party), namespace(party));
    Truth::all([
        listed(&source.principals, &source.not_principals, |pattern| {
            is_string(pattern, &principal)
        }),
        listed(&source.namespaces, &source.not_namespaces, |pattern| {
            is_string(pattern, &namespace)
        }),
        listed(
            &source.service_accounts,
            &source.not_service_accounts,
            |account| is_account(account, author, party),
        ),
        listed(&source.ip_blocks, &source.not_ip_blocks, |block| {
            is_in_block(block, party)
        }),
        layer7(&source.request_principals, &source.not_request_principals),
        layer7(&source.remote_ip_blocks, &source.not_remote_ip_blocks),
    ])
}

/// "Fields in the operation are ANDed together": `Operation`.
fn is_operation(operation: &Operation, question: &Question<'_>) -> Truth {
    Truth::all([
        listed(&operation.ports, &operation.not_ports, |port| {
            is_port(port, question)
        }),
        seen(
            &operation.hosts,
            &operation.not_hosts,
            question,
            |request, host| {
                is_string(
                    &host.to_ascii_lowercase(),
                    &request.host.to_ascii_lowercase(),
                )
            },
        ),
        seen(
            &operation.methods,
            &operation.not_methods,
            question,
            |request, method| is_string(method, &request.method),
        ),
        seen(
            &operation.paths,
            &operation.not_paths,
            question,
            |request, path| is_string(path, &request.path),
        ),
    ])
}

/// "Condition specifies additional required attributes."
fn holds(condition: &Condition, author: &str, question: &Question<'_>) -> Truth {
    let (source, destination) = (question.source, question.destination);
    let (values, not) = (&condition.values, &condition.not_values);
    match condition.key.as_str() {
        "source.ip" => listed(values, not, |block| is_in_block(block, source)),
        "source.namespace" => listed(values, not, |p| is_string(p, &namespace(source))),
        "source.principal" => listed(values, not, |p| is_string(p, &principal(source))),
        "source.serviceAccount" => listed(values, not, |a| is_account(a, author, source)),
        "destination.ip" => listed(values, not, |block| is_in_block(block, destination)),
        "destination.port" => listed(values, not, |port| is_port(port, question)),
        key => match header_of(key) {
            Some(name) => seen(values, not, question, |request, pattern| {
                let value = request.headers.get(&name).map_or("", String::as_str);
                is_string(pattern, value)
            }),
            None => layer7(values, not),
        },
    }
}

/// "request.headers: HTTP request headers. The header name is surrounded by [] without any quotes": conditions.
fn header_of(key: &str) -> Option<String> {
    let name = key.strip_prefix("request.headers[")?.strip_suffix(']')?;
    Some(name.to_ascii_lowercase())
}

/// As [`listed`], of a request: unknown where nobody sees it.
fn seen(
    values: &[String],
    not: &[String],
    question: &Question<'_>,
    is: impl Fn(&Request, &String) -> bool,
) -> Truth {
    match question.request {
        Some(request) => listed(values, not, |pattern| is(request, pattern)),
        None => layer7(values, not),
    }
}

/// Whether an enforced policy has a rule about requests, and nothing but what a proxy can tell, that could match here for whomever.
pub(super) fn asks_about_requests(question: &Question<'_>) -> bool {
    let policies = question.cluster.authorization_policies.iter();
    let mut enforced = policies.filter(|policy| {
        let decides = matches!(
            policy.spec.action.unwrap_or(Action::Allow),
            Action::Allow | Action::Deny
        );
        decides && Counts::Enforced.contains(&policy.metadata) && selects(policy, question)
    });
    enforced.any(|policy| {
        let mut rules = policy.spec.rules.iter().flatten();
        rules.any(|rule| is_about_requests(rule) && may_match_here(rule, question))
    })
}

fn is_about_requests(rule: &AuthorizationRule) -> bool {
    let mut from = rule.from.iter().flatten().map(|from| &from.source);
    let hidden = from.any(|source| {
        let lists = [
            &source.request_principals,
            &source.not_request_principals,
            &source.remote_ip_blocks,
            &source.not_remote_ip_blocks,
        ];
        lists.iter().any(|list| !list.is_empty())
    });
    let known = |key: &str| key.starts_with("source.") || key.starts_with("destination.");
    let when = || rule.when.iter().flatten().map(|c| c.key.as_str());
    let unknown = when().any(|key| !known(key) && header_of(key).is_none());
    let mut to = rule.to.iter().flatten().map(|to| &to.operation);
    let operations = to.any(|operation| {
        let lists = [
            &operation.hosts,
            &operation.not_hosts,
            &operation.methods,
            &operation.not_methods,
            &operation.paths,
            &operation.not_paths,
        ];
        lists.iter().any(|list| !list.is_empty())
    });
    !hidden && !unknown && (operations || when().any(|key| header_of(key).is_some()))
}

/// As far as it is about the destination.
fn may_match_here(rule: &AuthorizationRule, question: &Question<'_>) -> bool {
    let to = match rule.to.as_deref() {
        None | Some([]) => Truth::True,
        Some(to) => Truth::any(to.iter().map(|t| is_operation(&t.operation, question))),
    };
    let when = rule.when.iter().flatten();
    let when = when.filter(|condition| !condition.key.starts_with("source."));
    let when = Truth::all(when.map(|condition| holds(condition, "", question)));
    Truth::all([to, when]) != Truth::False
}

/// One of the first list, if it has any, and none of the second.
fn listed(values: &[String], not: &[String], is: impl Fn(&String) -> bool) -> Truth {
    ((values.is_empty() || values.iter().any(&is)) && !not.iter().any(&is)).into()
}

/// True when nothing is asked for.
fn layer7(values: &[String], not: &[String]) -> Truth {
    if values.is_empty() && not.is_empty() {
        Truth::True
    } else {
        Truth::Unknown
    }
}

/// "Exact match: "abc" will match on value "abc". Prefix match: "abc*" will match on value "abc" and "abcd". Suffix match: "*abc"
/// will match on value "abc" and "xabc". Presence match: "*" will match when value is not empty": `Rule`.
fn is_string(pattern: &str, value: &str) -> bool {
    if pattern == "*" {
        return !value.is_empty();
    }
    if value.is_empty() {
        return false;
    }
    if let Some(suffix) = pattern.strip_prefix('*') {
        return value.ends_with(suffix);
    }
    match pattern.strip_suffix('*') {
        Some(prefix) => value.starts_with(prefix),
        None => value == pattern,
    }
}

/// "Each service account in the list is either in the format `<NAMESPACE>/<SERVICE_ACCOUNT>`, or `<SERVICE_ACCOUNT>` which is relative to
/// the namespace of the authorization policy": `service_accounts`. No patterns.
fn is_account(account: &str, author: &str, party: &Party<'_>) -> bool {
    let (namespace, name) = account.split_once('/').unwrap_or((author, account));
    party
        .pod()
        .is_some_and(|pod| pod.metadata.namespace == namespace && pod.service_account() == name)
}

/// "Single IP (e.g. "203.0.113.4") and CIDR (e.g. "203.0.113.0/24") are supported": `ip_blocks`.
fn is_in_block(block: &str, party: &Party<'_>) -> bool {
    block
        .parse::<Cidr>()
        .is_ok_and(|cidr| cidr.contains(party.address))
}

/// "A list of ports as specified in the connection": of any protocol that has them.
fn is_port(port: &str, question: &Question<'_>) -> bool {
    let connection = question.connection;
    connection.protocol.has_ports() && port.parse() == Ok(connection.destination_port)
}

/// "The peer identity is in the format of "<TRUST_DOMAIN>/ns/<NAMESPACE>/sa/<SERVICE_ACCOUNT>"": `principals`. Empty without one.
fn principal(party: &Party<'_>) -> String {
    party.pod().map_or_else(String::new, |pod| {
        let (namespace, account) = (&pod.metadata.namespace, pod.service_account());
        format!("{TRUST_DOMAIN}/ns/{namespace}/sa/{account}")
    })
}

/// "A list of namespaces derived from the peer certificate": `namespaces`. Empty without one.
fn namespace(party: &Party<'_>) -> String {
    party
        .pod()
        .map_or_else(String::new, |pod| pod.metadata.namespace.clone())
}
