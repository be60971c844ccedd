//! What stands between objects: each is sound, but they cannot all be in effect.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weft_proto::model::{Problem, Severity};

use super::balanced_ports;
use crate::model::{Claim, Entry, Model, NodePort};
use crate::object::{Kind, ObjectName, ObjectRef};

/// Conflicts of the service `name`, and of the policies that target it.
pub(super) fn of_service(model: &Model, name: &ObjectName) -> Vec<Problem> {
    let mut problems = shared_addresses(model, name);
    problems.extend(shared_node_ports(model, name));
    problems.extend(policies(model, name));
    problems
}

fn shared_addresses(model: &Model, name: &ObjectName) -> Vec<Problem> {
    let Some(entry) = model.service(name) else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    for port in balanced_ports(&entry.spec) {
        // One line per winner, not per address.
        let mut lost: BTreeMap<&ObjectName, Vec<IpAddr>> = BTreeMap::new();
        for address in &entry.spec.addresses {
            let claim = Claim {
                address: *address,
                port: port.port,
                protocol: port.protocol,
            };
            let winner = model.claimants(&claim).and_then(|all| all.first());
            if let Some(winner) = winner.filter(|w| w.service != *name) {
                lost.entry(&winner.service).or_default().push(*address);
            }
        }
        for (winner, addresses) in lost {
            let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            problems.push(problem(
                Kind::Service,
                name,
                entry,
                "spec.clusterIPs",
                format!(
                    "{} port {}/{} belongs to Service {winner}, which comes first (the older, then the first by name): give this one another address or port",
                    list.join(", "),
                    port.port,
                    port.protocol
                ),
                Severity::Error,
            ));
        }
    }
    problems
}

fn shared_node_ports(model: &Model, name: &ObjectName) -> Vec<Problem> {
    let Some(entry) = model.service(name) else {
        return Vec::new();
    };
    let ports = balanced_ports(&entry.spec).iter().filter_map(|port| {
        let claim = NodePort {
            port: port.node_port?,
            protocol: port.protocol,
        };
        Some(("spec.ports", claim))
    });
    let health_check = entry.spec.outside.health_check_port;
    let health_check =
        health_check.map(|port| ("spec.healthCheckNodePort", NodePort::health_check(port)));
    let lost = ports.chain(health_check).filter_map(|(field, claim)| {
        let winner = model.node_port(claim)?;
        (winner.service != *name).then_some((field, claim, winner))
    });
    lost.map(|(field, claim, winner)| {
        problem(
            Kind::Service,
            name,
            entry,
            field,
            format!(
                "node port {}/{} belongs to Service {}, which comes first (the older, then the first by name): give this one another",
                claim.port, claim.protocol, winner.service
            ),
            Severity::Error,
        )
    })
    .collect()
}

fn policies(model: &Model, service: &ObjectName) -> Vec<Problem> {
    let list = model.policies(service);
    let Some((winner, _)) = list.first() else {
        return Vec::new();
    };
    let exists = model.service(service).is_some();
    list.iter()
        .enumerate()
        .filter_map(|(i, (name, entry))| {
            let (message, severity) = if !exists {
                let message = format!("Service {service} does not exist (yet)");
                (message, Severity::Warning)
            } else if i > 0 {
                let message = format!(
                    "Service {service} already has TrafficPolicy {winner}, which comes first (the older, then the first by name): target it from one of the two only"
                );
                (message, Severity::Error)
            } else {
                return None;
            };
            Some(problem(
                Kind::TrafficPolicy,
                name,
                entry,
                "spec.targetRefs",
                message,
                severity,
            ))
        })
        .collect()
}

fn problem<T>(
    kind: Kind,
    name: &ObjectName,
    entry: &Entry<T>,
    field: &str,
    message: String,
    severity: Severity,
) -> Problem {
    Problem {
        origin: entry.origin.to_string(),
        object: ObjectRef {
            kind,
            name: name.clone(),
        }
        .to_string(),
        field: field.to_owned(),
        message,
        severity,
    }
}
