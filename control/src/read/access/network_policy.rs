//! `networking.k8s.io/v1` NetworkPolicy.

use serde::Deserialize;
use serde_json::Value;
use weft_proto::model::policy::Cidr;

use super::{label_selector, part, port};
use crate::object::{
    LabelSelector, NetworkPeer, NetworkPolicy, NetworkPort, NetworkRule, PortChoice,
};
use crate::read::cidr;
use crate::read::fields;
use crate::read::findings::Findings;
use crate::read::names::shown;

/// `intact`: the manifest around `spec` can be understood.
pub(super) fn read(spec: &Value, intact: bool, findings: &mut Findings) -> NetworkPolicy {
    let known = ["podSelector", "policyTypes", "ingress", "egress"];
    let intact = (spec.is_null() || part::only(spec, &known, "spec", findings)) && intact;
    let pods = match part::field(spec, "podSelector") {
        None => Some(LabelSelector::default()),
        Some(selector) => label_selector::read(selector, "spec.podSelector", findings),
    };
    let types = types(spec, findings);
    // For pods that it was not meant for, its rules would let in what other policies do not.
    let usable = intact && types.is_some() && pods.is_some();
    let types = types.unwrap_or(Types::BOTH);
    let mut rules = |direction: &str, peers: &str, applies: bool| {
        let rules = rules(spec, direction, peers, findings);
        if !applies && part::field(spec, direction).is_some() && intact {
            findings.warn(
                format!("spec.{direction}"),
                "is without effect: policyTypes does not name this direction",
            );
        }
        (applies || !intact).then_some(if usable { rules } else { Vec::new() })
    };
    NetworkPolicy {
        ingress: rules("ingress", "from", types.ingress),
        egress: rules("egress", "to", types.egress),
        pods: pods.unwrap_or_default(),
    }
}

struct Types {
    ingress: bool,
    egress: bool,
}

impl Types {
    const BOTH: Self = Self {
        ingress: true,
        egress: true,
    };
}

/// The directions it is about; without `policyTypes`, ingress, and egress if there are rules for it. `None` when it is bad.
fn types(spec: &Value, findings: &mut Findings) -> Option<Types> {
    let given = match part::field(spec, "policyTypes") {
        None => Vec::new(),
        Some(list) => part::read::<Vec<String>>(list, "spec.policyTypes", findings)?,
    };
    if given.is_empty() {
        let egress = match part::field(spec, "egress") {
            None => false,
            Some(Value::Array(rules)) => !rules.is_empty(),
            Some(_) => true,
        };
        return Some(Types {
            ingress: true,
            egress,
        });
    }
    let mut good = true;
    for (i, name) in given.iter().enumerate() {
        if !matches!(name.as_str(), "Ingress" | "Egress") {
            findings.invalid(
                format!("spec.policyTypes[{i}]"),
                format!("{} is not Ingress or Egress", shown(name)),
            );
            good = false;
        }
    }
    let has = |wanted: &str| given.iter().any(|name| name == wanted);
    good.then(|| Types {
        ingress: has("Ingress"),
        egress: has("Egress"),
    })
}

/// The rules that can be used: what a bad one would let through, stays refused.
fn rules(spec: &Value, direction: &str, peers: &str, findings: &mut Findings) -> Vec<NetworkRule> {
    let items = part::list(spec, direction, "spec", findings).unwrap_or_default();
    let numbered = items.iter().enumerate();
    numbered
        .filter_map(|(i, item)| rule(item, format!("{direction}[{i}]"), peers, findings))
        .collect()
}

fn rule(value: &Value, name: String, peers: &str, findings: &mut Findings) -> Option<NetworkRule> {
    let path = format!("spec.{name}");
    let known = part::only(value, &[peers, "ports"], &path, findings);
    let peers = part::all(value, peers, &path, findings, peer);
    let ports = part::all(value, "ports", &path, findings, network_port);
    (known).then_some(NetworkRule {
        name,
        peers: peers?,
        ports: ports?,
    })
}

fn peer(value: &Value, path: &str, findings: &mut Findings) -> Option<NetworkPeer> {
    let known = ["podSelector", "namespaceSelector", "ipBlock"];
    if !part::only(value, &known, path, findings) {
        return None;
    }
    let mut selector = |name: &str| match part::field(value, name) {
        None => Some(None),
        Some(found) => label_selector::read(found, &format!("{path}.{name}"), findings).map(Some),
    };
    let (pods, namespaces) = (selector("podSelector"), selector("namespaceSelector"));
    let (pods, namespaces) = (pods?, namespaces?);
    match (part::field(value, "ipBlock"), &pods, &namespaces) {
        (Some(found), None, None) => block(found, &format!("{path}.ipBlock"), findings),
        (Some(_), ..) => {
            findings.invalid(path, "has an ipBlock and a selector: make two peers of it");
            None
        }
        (None, None, None) => {
            findings.invalid(
                path,
                "is empty: give podSelector, namespaceSelector, both, or ipBlock",
            );
            None
        }
        (None, ..) => Some(NetworkPeer::Pods {
            namespaces,
            pods: pods.unwrap_or_default(),
        }),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockShape {
    cidr: String,
    except: Option<Vec<String>>,
}

fn block(value: &Value, path: &str, findings: &mut Findings) -> Option<NetworkPeer> {
    let shape: BlockShape = part::read(value, path, findings)?;
    let cidr = cidr::range(&shape.cidr)
        .map_err(|message| findings.invalid(format!("{path}.cidr"), message))
        .ok()?;
    let mut good = true;
    let mut except = Vec::new();
    for (i, text) in shape.except.iter().flatten().enumerate() {
        let checked = cidr::range(text).and_then(|inner: Cidr| {
            if cidr::is_within(&inner, &cidr) {
                Ok(inner)
            } else {
                Err(format!(
                    "{text} is not a part of {}: give a smaller range within it",
                    shape.cidr
                ))
            }
        });
        match checked {
            Ok(inner) => except.push(inner),
            Err(message) => {
                findings.invalid(format!("{path}.except[{i}]"), message);
                good = false;
            }
        }
    }
    good.then_some(NetworkPeer::Block { cidr, except })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PortShape {
    protocol: Option<String>,
    port: Option<Value>,
    end_port: Option<i64>,
}

fn network_port(value: &Value, path: &str, findings: &mut Findings) -> Option<NetworkPort> {
    let shape: PortShape = part::read(value, path, findings)?;
    let protocol = fields::ip_protocol(
        shape.protocol.as_deref(),
        &format!("{path}.protocol"),
        findings,
    );
    let first = match &shape.port {
        None => Ok(PortChoice::All),
        Some(value) => port::number_or_name(value),
    };
    let first = first
        .map_err(|message| findings.invalid(format!("{path}.port"), message))
        .ok()?;
    let port = match (shape.end_port, first) {
        (None, first) => first,
        (Some(end), PortChoice::Range(first, _)) => match port::number(end) {
            Ok(last) if last >= first => PortChoice::Range(first, last),
            Ok(last) => {
                findings.invalid(
                    format!("{path}.endPort"),
                    format!("{last} is less than port, which is {first}"),
                );
                return None;
            }
            Err(message) => {
                findings.invalid(format!("{path}.endPort"), message);
                return None;
            }
        },
        (Some(_), PortChoice::All | PortChoice::Name(_)) => {
            findings.invalid(format!("{path}.endPort"), "needs a port that is a number");
            return None;
        }
    };
    Some(NetworkPort {
        protocol: protocol?,
        port,
    })
}
