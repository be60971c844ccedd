//! `policy.networking.k8s.io/v1alpha2` ClusterNetworkPolicy.
//!
//! What cannot be read fails closed as the API asks: such an Accept matches nothing, such a Deny or Pass denies everything.
//! <https://github.com/kubernetes-sigs/network-policy-api/blob/main/apis/v1alpha2/clusternetworkpolicy_types.go>

use serde::Deserialize;
use serde_json::Value;
use weft_proto::model::policy::{Cidr, Effect, IpProtocol, Tier};

use super::{label_selector, part, port};
use crate::object::{
    ClusterNetworkPolicy, ClusterPeer, ClusterPort, ClusterRule, PodSelector, PortChoice,
};
use crate::read::cidr;
use crate::read::findings::Findings;
use crate::read::names::shown;

const MAX_PRIORITY: i64 = 1000;
const MAX_NAME: usize = 100;

/// `intact`: the manifest around `spec` can be understood.
pub(super) fn read(spec: &Value, intact: bool, findings: &mut Findings) -> ClusterNetworkPolicy {
    let known = ["tier", "priority", "subject", "ingress", "egress"];
    let known = part::only(spec, &known, "spec", findings);
    let tier = tier(spec, findings);
    let priority = priority(spec, findings);
    let subject = subject(spec, findings);
    let usable = intact && known && tier.is_some() && priority.is_some() && subject.is_some();
    let mut rules = |direction: &str, peers: &str| {
        // A misspelt name may be this one's.
        if !known && part::field(spec, direction).is_none() {
            return vec![deny_all(0, direction.to_owned())];
        }
        let mut rules = rules(spec, direction, peers, findings);
        if !usable {
            // At whatever place and for whomever they were meant: what they would refuse is refused, and nothing else changed.
            rules.retain(|rule| rule.effect == Effect::Deny);
        }
        rules
    };
    ClusterNetworkPolicy {
        ingress: rules("ingress", "from"),
        egress: rules("egress", "to"),
        tier: tier.unwrap_or(Tier::Admin),
        priority: priority.unwrap_or(0),
        subject: subject.unwrap_or_default(),
    }
}

fn tier(spec: &Value, findings: &mut Findings) -> Option<Tier> {
    match part::field(spec, "tier").and_then(Value::as_str) {
        Some("Admin") => Some(Tier::Admin),
        Some("Baseline") => Some(Tier::Baseline),
        other => {
            findings.invalid(
                "spec.tier",
                format!(
                    "{} is not Admin or Baseline",
                    shown(other.unwrap_or_default())
                ),
            );
            None
        }
    }
}

fn priority(spec: &Value, findings: &mut Findings) -> Option<u32> {
    let given = part::field(spec, "priority").and_then(Value::as_i64);
    let good = given.filter(|p| (0..=MAX_PRIORITY).contains(p));
    if good.is_none() {
        findings.invalid(
            "spec.priority",
            format!("must be a number from 0 to {MAX_PRIORITY}"),
        );
    }
    good.and_then(|p| u32::try_from(p).ok())
}

fn subject(spec: &Value, findings: &mut Findings) -> Option<PodSelector> {
    let Some(subject) = part::field(spec, "subject") else {
        findings.invalid("spec.subject", "is missing: give namespaces or pods");
        return None;
    };
    let (name, value) = only_field(subject, &["namespaces", "pods"], "spec.subject", findings)?;
    pods(name, value, &format!("spec.subject.{name}"), findings)
}

/// The one field that is set.
fn only_field<'a>(
    value: &'a Value,
    known: &[&'static str],
    path: &str,
    findings: &mut Findings,
) -> Option<(&'static str, &'a Value)> {
    if !part::only(value, known, path, findings) {
        return None;
    }
    let set: Vec<_> = known
        .iter()
        .filter_map(|name| Some((*name, part::field(value, name)?)))
        .collect();
    if let [only] = set[..] {
        return Some(only);
    }
    findings.invalid(path, format!("needs exactly one of {}", known.join(", ")));
    None
}

/// `namespaces`, a selector of them, or `pods`, with two selectors.
fn pods(name: &str, value: &Value, path: &str, findings: &mut Findings) -> Option<PodSelector> {
    if name == "namespaces" {
        return Some(PodSelector {
            namespaces: label_selector::read(value, path, findings)?,
            ..PodSelector::default()
        });
    }
    if !part::only(value, &["namespaceSelector", "podSelector"], path, findings) {
        return None;
    }
    let mut selector = |name: &str| match part::field(value, name) {
        None => Some(Default::default()),
        Some(found) => label_selector::read(found, &format!("{path}.{name}"), findings),
    };
    let (namespaces, pods) = (selector("namespaceSelector"), selector("podSelector"));
    Some(PodSelector {
        namespaces: namespaces?,
        pods: pods?,
    })
}

fn rules(spec: &Value, direction: &str, peers: &str, findings: &mut Findings) -> Vec<ClusterRule> {
    let Some(items) = part::list(spec, direction, "spec", findings) else {
        return vec![deny_all(0, direction.to_owned())];
    };
    let numbered = items.iter().enumerate();
    numbered
        .filter_map(|(i, item)| rule(item, i, direction, peers, findings))
        .collect()
}

fn rule(
    value: &Value,
    index: usize,
    direction: &str,
    peers: &str,
    findings: &mut Findings,
) -> Option<ClusterRule> {
    let place = format!("{direction}[{index}]");
    let path = format!("spec.{place}");
    let known = part::only(
        value,
        &["name", "action", peers, "protocols"],
        &path,
        findings,
    );
    let effect = effect(value, &path, findings);
    let egress = peers == "to";
    let peers = match part::all(value, peers, &path, findings, |v, p, f| {
        peer(v, p, egress, f)
    }) {
        Some(list) if list.is_empty() => {
            findings.invalid(
                format!("{path}.{peers}"),
                "is empty: give at least one peer",
            );
            None
        }
        other => other,
    };
    let ports = part::all(value, "protocols", &path, findings, cluster_port);
    let name = name(value, &path, findings).unwrap_or(place);
    match (known, effect, peers, ports) {
        (true, Some(effect), Some(peers), Some(ports)) => Some(ClusterRule {
            index,
            name,
            effect,
            peers: Some(peers),
            ports,
        }),
        (_, Some(Effect::Allow), ..) => None,
        _ => Some(deny_all(index, name)),
    }
}

fn deny_all(index: usize, name: String) -> ClusterRule {
    ClusterRule {
        index,
        name,
        effect: Effect::Deny,
        peers: None,
        ports: Vec::new(),
    }
}

fn effect(value: &Value, path: &str, findings: &mut Findings) -> Option<Effect> {
    match part::field(value, "action").and_then(Value::as_str) {
        Some("Accept") => Some(Effect::Allow),
        Some("Deny") => Some(Effect::Deny),
        Some("Pass") => Some(Effect::Pass),
        other => {
            findings.invalid(
                format!("{path}.action"),
                format!(
                    "{} is not Accept, Deny or Pass",
                    shown(other.unwrap_or_default())
                ),
            );
            None
        }
    }
}

/// A bad name is no reason to do something else than the rule says.
fn name(value: &Value, path: &str, findings: &mut Findings) -> Option<String> {
    match part::field(value, "name")? {
        Value::String(name) if name.is_empty() => None,
        Value::String(name) if name.len() <= MAX_NAME => Some(name.clone()),
        _ => {
            findings.invalid(
                format!("{path}.name"),
                format!("is not a text of at most {MAX_NAME} characters"),
            );
            None
        }
    }
}

fn peer(value: &Value, path: &str, egress: bool, findings: &mut Findings) -> Option<ClusterPeer> {
    let known: &[&str] = if egress {
        &["namespaces", "pods", "nodes", "networks", "domainNames"]
    } else {
        &["namespaces", "pods"]
    };
    let (name, found) = only_field(value, known, path, findings)?;
    let path = format!("{path}.{name}");
    match name {
        "nodes" => label_selector::read(found, &path, findings).map(ClusterPeer::Nodes),
        "networks" => networks(found, &path, findings).map(ClusterPeer::Networks),
        "domainNames" => {
            findings.unsupported(
                path,
                "is not supported: the kernel sees addresses, not names; use networks",
            );
            None
        }
        _ => pods(name, found, &path, findings).map(ClusterPeer::Pods),
    }
}

fn networks(value: &Value, path: &str, findings: &mut Findings) -> Option<Vec<Cidr>> {
    let texts: Vec<String> = part::read(value, path, findings)?;
    if texts.is_empty() {
        findings.invalid(path, "is empty: give at least one CIDR");
        return None;
    }
    let mut ranges = Vec::with_capacity(texts.len());
    for (i, text) in texts.iter().enumerate() {
        match cidr::range(text) {
            Ok(range) => ranges.push(range),
            Err(message) => findings.invalid(format!("{path}[{i}]"), message),
        }
    }
    (ranges.len() == texts.len()).then_some(ranges)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProtocolShape {
    destination_port: DestinationPort,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DestinationPort {
    number: Option<i64>,
    range: Option<PortRange>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PortRange {
    start: i64,
    end: i64,
}

fn cluster_port(value: &Value, path: &str, findings: &mut Findings) -> Option<ClusterPort> {
    let known = ["tcp", "udp", "sctp", "destinationNamedPort"];
    let (name, found) = only_field(value, &known, path, findings)?;
    let path = format!("{path}.{name}");
    let protocol = match name {
        "tcp" => IpProtocol::Tcp,
        "udp" => IpProtocol::Udp,
        "sctp" => IpProtocol::Sctp,
        _ => return named_port(found, &path, findings),
    };
    let shape: ProtocolShape = part::read(found, &path, findings)?;
    let path = format!("{path}.destinationPort");
    let port = match (shape.destination_port.number, shape.destination_port.range) {
        (Some(number), None) => port::number(number).map(|n| PortChoice::Range(n, n)),
        (None, Some(range)) => port::number(range.start).and_then(|first| {
            let last = port::number(range.end)?;
            if first < last {
                Ok(PortChoice::Range(first, last))
            } else {
                Err(format!("range: start {first} is not less than end {last}"))
            }
        }),
        _ => Err("needs either number or range".to_owned()),
    };
    port.map_err(|message| findings.invalid(path, message))
        .ok()
        .map(|port| ClusterPort {
            protocol: Some(protocol),
            port,
        })
}

fn named_port(value: &Value, path: &str, findings: &mut Findings) -> Option<ClusterPort> {
    let name: String = part::read(value, path, findings)?;
    port::check_name(&name)
        .map_err(|message| findings.invalid(path, message))
        .ok()
        .map(|()| ClusterPort {
            protocol: None,
            port: PortChoice::Name(name),
        })
}
