//! `v1` Service.
//!
//! See <https://kubernetes.io/docs/reference/networking/virtual-ips/>.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Service as Manifest, ServicePort as ManifestPort, ServiceSpec, ServiceStatus,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use weft_proto::model::LocalityMode;

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
    Service {
        addresses: addresses(spec, manifest.status.as_ref(), findings),
        selector: spec.selector.clone().unwrap_or_default(),
        ports: ports(spec, findings),
        affinity: affinity(spec, findings),
        locality: locality(spec, findings),
        publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
    }
}

/// Every address the service answers on; none when Weft is to leave it alone.
fn addresses(
    spec: &ServiceSpec,
    status: Option<&ServiceStatus>,
    findings: &mut Findings,
) -> Vec<IpAddr> {
    match spec.type_.as_deref().unwrap_or("ClusterIP") {
        "ClusterIP" | "NodePort" | "LoadBalancer" => {}
        "ExternalName" => return Vec::new(),
        other => {
            findings.invalid(
                "spec.type",
                format!(
                    "{} is not ClusterIP, NodePort, LoadBalancer or ExternalName",
                    shown(other)
                ),
            );
            return Vec::new();
        }
    }
    let Some(mut all) = cluster_ips(spec, findings) else {
        return Vec::new();
    };
    let external = spec.external_ips.iter().flatten().map(String::as_str);
    all.extend(fields::addresses(
        external,
        "spec.externalIPs",
        "",
        findings,
    ));
    all.extend(load_balancer(status, findings));
    let mut seen = HashSet::new();
    all.retain(|ip| seen.insert(*ip));
    all
}

/// `None` for a headless service.
fn cluster_ips(spec: &ServiceSpec, findings: &mut Findings) -> Option<Vec<IpAddr>> {
    let list = spec.cluster_ips.as_deref().unwrap_or_default();
    let single = spec.cluster_ip.as_deref().unwrap_or_default();
    if single == "None" || list.first().is_some_and(|ip| ip == "None") {
        return None;
    }
    if !list.is_empty() {
        return Some(fields::addresses(
            list.iter().map(String::as_str),
            "spec.clusterIPs",
            "",
            findings,
        ));
    }
    if single.is_empty() {
        findings.unsupported(
            "spec.clusterIP",
            "is missing, and there is no API server here that would assign one: give an address, or None for a headless service",
        );
        return Some(Vec::new());
    }
    match fields::address(single) {
        Ok(ip) => Some(vec![ip]),
        Err(message) => {
            findings.invalid("spec.clusterIP", message);
            Some(Vec::new())
        }
    }
}

fn load_balancer(status: Option<&ServiceStatus>, findings: &mut Findings) -> Vec<IpAddr> {
    let ingress = status
        .and_then(|s| s.load_balancer.as_ref())
        .and_then(|l| l.ingress.as_ref());
    let mut all = Vec::new();
    for (i, entry) in ingress.into_iter().flatten().enumerate() {
        // ipMode Proxy: the balancer wants to see the traffic itself.
        if entry.ip_mode.as_deref() == Some("Proxy") {
            continue;
        }
        let Some(text) = entry.ip.as_deref().filter(|ip| !ip.is_empty()) else {
            continue;
        };
        match fields::address(text) {
            Ok(ip) => all.push(ip),
            Err(message) => {
                findings.invalid(format!("status.loadBalancer.ingress[{i}].ip"), message);
            }
        }
    }
    all
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

fn locality(spec: &ServiceSpec, findings: &mut Findings) -> LocalityMode {
    match spec.internal_traffic_policy.as_deref().unwrap_or("Cluster") {
        "Cluster" => {}
        "Local" => return LocalityMode::NodeOnly,
        other => findings.invalid(
            "spec.internalTrafficPolicy",
            format!("{} is not Cluster or Local", shown(other)),
        ),
    }
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
