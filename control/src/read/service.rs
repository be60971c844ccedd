//! `v1` Service.
//!
//! See <https://kubernetes.io/docs/reference/networking/virtual-ips/>.

mod addresses;
mod outside;

use std::collections::HashSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Service as Manifest, ServicePort as ManifestPort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use weft_proto::model::LocalityMode;

use self::addresses::Addresses;
use super::fields;
use super::findings::Findings;
use super::names::shown;
use crate::object::{Service, ServicePort, TargetPort};

/// Kubernetes' default of `sessionAffinityConfig.clientIP.timeoutSeconds`: three hours.
const DEFAULT_AFFINITY_SECONDS: i32 = 10_800;
const MAX_AFFINITY_SECONDS: i32 = 86_400;

pub(super) fn read(manifest: &Manifest, findings: &mut Findings) -> Service {
    let empty = ServiceSpec::default();
    let spec = manifest.spec.as_ref().unwrap_or(&empty);
    let addresses = Addresses::read(spec, manifest.status.as_ref(), findings);
    let is_local = is_local(spec, findings);
    let near = near(spec, findings);
    Service {
        addresses: addresses.all(),
        outside: outside::read(manifest, spec, addresses, near, findings),
        selector: spec.selector.clone().unwrap_or_default(),
        ports: ports(spec, findings),
        affinity: affinity(spec, findings),
        locality: if is_local {
            LocalityMode::NodeOnly
        } else {
            near
        },
        publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
    }
}

fn ports(spec: &ServiceSpec, findings: &mut Findings) -> Vec<ServicePort> {
    let list = spec.ports.as_deref().unwrap_or_default();
    let headless = spec.cluster_ip.as_deref() == Some("None");
    let has_node_ports = matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer"));
    if list.is_empty() && spec.type_.as_deref() != Some("ExternalName") && !headless {
        findings.invalid("spec.ports", "is empty: give at least one port");
    }
    let (mut numbers, mut names) = (HashSet::new(), HashSet::new());
    let mut good = Vec::with_capacity(list.len());
    for (i, entry) in list.iter().enumerate() {
        let field = format!("spec.ports[{i}]");
        let Some(port) = port(entry, &field, findings) else {
            continue;
        };
        if !numbers.insert((port.port, port.protocol)) {
            findings.invalid(
                format!("{field}.port"),
                format!(
                    "{}/{} is there twice: the first entry counts",
                    port.port, port.protocol
                ),
            );
        } else if !names.insert(port.name.clone()) {
            findings.invalid(
                format!("{field}.name"),
                format!(
                    "{} is there twice: the first entry counts; give each port a name of its own",
                    shown(&port.name)
                ),
            );
        } else {
            good.push(ServicePort {
                node_port: port.node_port.filter(|_| has_node_ports),
                ..port
            });
        }
    }
    good
}

fn port(entry: &ManifestPort, field: &str, findings: &mut Findings) -> Option<ServicePort> {
    let protocol = fields::protocol(
        entry.protocol.as_deref(),
        &format!("{field}.protocol"),
        findings,
    );
    let port = fields::port(entry.port, &format!("{field}.port"), findings);
    let target_field = format!("{field}.targetPort");
    let target = match &entry.target_port {
        None => port.map(TargetPort::Number),
        // An empty value is how some tools write "not given".
        Some(IntOrString::Int(0)) => port.map(TargetPort::Number),
        Some(IntOrString::Int(number)) => {
            fields::port(*number, &target_field, findings).map(TargetPort::Number)
        }
        Some(IntOrString::String(name)) if name.is_empty() => port.map(TargetPort::Number),
        Some(IntOrString::String(name)) => target_name(name, &target_field, findings),
    };
    let node_port = entry.node_port.filter(|number| *number != 0);
    let node_port =
        node_port.and_then(|number| fields::port(number, &format!("{field}.nodePort"), findings));
    Some(ServicePort {
        node_port,
        name: entry.name.clone().unwrap_or_default(),
        protocol: protocol?,
        port: port?,
        target: target?,
    })
}

/// A name as containers give their ports (IANA service name), never a number in quotes.
fn target_name(name: &str, field: &str, findings: &mut Findings) -> Option<TargetPort> {
    let legal = name.len() <= 15
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && name.bytes().any(|b| b.is_ascii_lowercase());
    if legal {
        return Some(TargetPort::Name(name.to_owned()));
    }
    findings.invalid(
        field,
        format!(
            "{} is neither a number nor a port name (at most 15 lower-case letters, digits or \"-\", at least one letter)",
            shown(name)
        ),
    );
    None
}

fn affinity(spec: &ServiceSpec, findings: &mut Findings) -> Option<Duration> {
    match spec.session_affinity.as_deref().unwrap_or("None") {
        "None" | "" => None,
        "ClientIP" => {
            let seconds = spec
                .session_affinity_config
                .as_ref()
                .and_then(|c| c.client_ip.as_ref())
                .and_then(|c| c.timeout_seconds)
                .unwrap_or(DEFAULT_AFFINITY_SECONDS);
            let good = (1..=MAX_AFFINITY_SECONDS).contains(&seconds);
            if !good {
                findings.invalid(
                    "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
                    format!("{seconds} is not in 1 to {MAX_AFFINITY_SECONDS}"),
                );
            }
            let seconds = if good {
                seconds
            } else {
                DEFAULT_AFFINITY_SECONDS
            };
            Some(Duration::from_secs(u64::try_from(seconds).ok()?))
        }
        other => {
            findings.invalid(
                "spec.sessionAffinity",
                format!("{} is not None or ClientIP", shown(other)),
            );
            None
        }
    }
}

fn is_local(spec: &ServiceSpec, findings: &mut Findings) -> bool {
    match spec.internal_traffic_policy.as_deref().unwrap_or("Cluster") {
        "Cluster" => false,
        "Local" => true,
        other => {
            findings.invalid(
                "spec.internalTrafficPolicy",
                format!("{} is not Cluster or Local", shown(other)),
            );
            false
        }
    }
}

fn near(spec: &ServiceSpec, findings: &mut Findings) -> LocalityMode {
    match spec.traffic_distribution.as_deref() {
        None | Some("") => LocalityMode::None,
        Some("PreferClose" | "PreferSameZone") => LocalityMode::PreferZone,
        Some("PreferSameNode") => LocalityMode::PreferNode,
        Some(other) => {
            findings.invalid(
                "spec.trafficDistribution",
                format!(
                    "{} is not PreferClose, PreferSameZone or PreferSameNode",
                    shown(other)
                ),
            );
            LocalityMode::None
        }
    }
}
