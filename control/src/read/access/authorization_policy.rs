//! `security.istio.io` AuthorizationPolicy.
//!
//! <https://istio.io/latest/docs/reference/config/security/authorization-policy/>

use serde_json::Value;
use weft_proto::model::policy::Match;

use super::{clause, label_selector, part};
use crate::object::{Action, AuthorizationPolicy, AuthorizationRule, Clause, LabelSelector, Side};
use crate::read::findings::Findings;
use crate::read::names::shown;

/// `intact`: the manifest around `spec` can be understood. `None` when it is about gateways only, of which Weft has none.
pub(super) fn read(
    spec: &Value,
    intact: bool,
    namespace: &str,
    findings: &mut Findings,
) -> Option<AuthorizationPolicy> {
    let known = [
        "selector",
        "targetRef",
        "targetRefs",
        "action",
        "provider",
        "rules",
    ];
    let known = spec.is_null() || part::only(spec, &known, "spec", findings);
    let target = target(spec, findings)?;
    let workloads = selector(spec, findings);
    let action = action(spec, findings);
    let usable = intact && known && workloads.is_some() && action.is_some();
    let action = action.unwrap_or(Action::Allow);
    let mut rules = rules(spec, namespace, &action, findings);
    if !usable {
        rules = closed(&action).into_iter().collect();
    }
    if target == Target::Services {
        for rule in &mut rules {
            rule.when.push(layer7(Side::Destination, "targetRefs"));
        }
    }
    Some(AuthorizationPolicy {
        action,
        workloads: workloads.unwrap_or_default(),
        own_namespace_only: target == Target::Services,
        rules,
    })
}

fn layer7(side: Side, what: &str) -> Clause {
    Clause {
        side,
        one_of: vec![Match::Layer7(what.to_owned())],
        none_of: Vec::new(),
    }
}

#[derive(PartialEq, Eq)]
enum Target {
    Workloads,
    Services,
}

/// Which kind of thing it is attached to; `None` for gateways.
fn target(spec: &Value, findings: &mut Findings) -> Option<Target> {
    let one = part::field(spec, "targetRef").map(|t| ("spec.targetRef".to_owned(), t));
    let many = part::list(spec, "targetRefs", "spec", findings);
    let many = many.unwrap_or_default().iter().enumerate();
    let refs: Vec<(String, &Value)> = one
        .into_iter()
        .chain(many.map(|(i, t)| (format!("spec.targetRefs[{i}]"), t)))
        .collect();
    if refs.is_empty() {
        return Some(Target::Workloads);
    }
    if part::field(spec, "selector").is_some() {
        findings.invalid(
            "spec.selector",
            "cannot stand beside targetRefs: remove one of them",
        );
    }
    let mut is_gateway = true;
    for (field, target) in refs {
        let kind = part::field(target, "kind").and_then(Value::as_str);
        if matches!(kind, Some("Gateway" | "GatewayClass")) {
            findings.unsupported(
                field,
                "is a gateway, which Weft does not run: this reference is without effect here",
            );
        } else {
            is_gateway = false;
            findings.unsupported(
                field,
                "cannot be told apart in the kernel, which sees workloads and not services: what this policy would judge is refused in its whole namespace; use selector",
            );
        }
    }
    (!is_gateway).then_some(Target::Services)
}

/// The workloads; `None` when it is bad.
fn selector(spec: &Value, findings: &mut Findings) -> Option<LabelSelector> {
    let Some(selector) = part::field(spec, "selector") else {
        return Some(LabelSelector::default());
    };
    if !part::only(selector, &["matchLabels"], "spec.selector", findings) {
        return None;
    }
    label_selector::read(selector, "spec.selector", findings)
}

fn action(spec: &Value, findings: &mut Findings) -> Option<Action> {
    match part::field(spec, "action") {
        None => Some(Action::Allow),
        Some(value) => match value.as_str() {
            Some("ALLOW") => Some(Action::Allow),
            Some("DENY") => Some(Action::Deny),
            Some("AUDIT") => Some(Action::Audit),
            Some("CUSTOM") => {
                let provider = part::field(spec, "provider").and_then(|p| p.get("name"));
                let name = provider.and_then(Value::as_str).unwrap_or_default();
                findings.unsupported(
                    "spec.action",
                    format!(
                        "CUSTOM needs a proxy that asks {}: until there is one, what its rules match is refused",
                        shown(name)
                    ),
                );
                Some(Action::Custom(name.to_owned()))
            }
            other => {
                findings.invalid(
                    "spec.action",
                    format!(
                        "{} is not ALLOW, DENY, AUDIT or CUSTOM",
                        shown(other.unwrap_or_default())
                    ),
                );
                None
            }
        },
    }
}

/// Instead of a rule that cannot be used: none where rules let through, and one for everything where they refuse.
fn closed(action: &Action) -> Option<AuthorizationRule> {
    match action {
        Action::Allow | Action::Audit => None,
        Action::Deny | Action::Custom(_) => Some(AuthorizationRule {
            name: "unreadable".to_owned(),
            from: Vec::new(),
            to: Vec::new(),
            when: Vec::new(),
        }),
    }
}

fn rules(
    spec: &Value,
    namespace: &str,
    action: &Action,
    findings: &mut Findings,
) -> Vec<AuthorizationRule> {
    let Some(items) = part::list(spec, "rules", "spec", findings) else {
        return closed(action).into_iter().collect();
    };
    items
        .iter()
        .enumerate()
        .filter_map(|(i, item)| {
            let name = format!("rules[{i}]");
            rule(item, &name, namespace, findings).or_else(|| {
                let closed = closed(action)?;
                Some(AuthorizationRule { name, ..closed })
            })
        })
        .collect()
}

fn rule(
    value: &Value,
    name: &str,
    namespace: &str,
    findings: &mut Findings,
) -> Option<AuthorizationRule> {
    let path = format!("spec.{name}");
    let known = part::only(value, &["from", "to", "when"], &path, findings);
    let from = part::all(value, "from", &path, findings, |item, path, findings| {
        let source = inside(item, "source", path, findings)?;
        clause::source(source, &format!("{path}.source"), namespace, findings)
    });
    let to = part::all(value, "to", &path, findings, |item, path, findings| {
        let operation = inside(item, "operation", path, findings)?;
        clause::operation(operation, &format!("{path}.operation"), findings)
    });
    let when = part::all(value, "when", &path, findings, |item, path, findings| {
        clause::condition(item, path, namespace, findings)
    });
    let (from, to, when) = (from?, to?, when?);
    known.then(|| AuthorizationRule {
        name: name.to_owned(),
        from,
        to,
        when,
    })
}

/// The one field of an item.
fn inside<'a>(
    item: &'a Value,
    name: &str,
    path: &str,
    findings: &mut Findings,
) -> Option<&'a Value> {
    if !part::only(item, &[name], path, findings) {
        return None;
    }
    let found = part::field(item, name);
    if found.is_none() {
        findings.invalid(format!("{path}.{name}"), "is missing");
    }
    found
}
