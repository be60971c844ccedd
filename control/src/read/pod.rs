//! `v1` Pod.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod as Manifest, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use weft_proto::model::NamedPort;

use super::fields;
use super::findings::Findings;
use super::membership;
use super::names::shown;
use crate::object::Pod;

const WEIGHT: &str = "weft.io/weight";
const ACCELERATION: &str = "weft.io/acceleration";
const MAX_WEIGHT: u32 = 1_000_000;

pub(super) fn read(manifest: &Manifest, findings: &mut Findings) -> Pod {
    let spec = manifest.spec.as_ref();
    let addresses = addresses(manifest, findings);
    let account = spec
        .and_then(|s| s.service_account_name.as_deref())
        .unwrap_or_default();
    let phase = manifest
        .status
        .as_ref()
        .and_then(|s| s.phase.as_deref())
        .unwrap_or_default();
    Pod {
        ready: is_ready(manifest, &addresses),
        addresses,
        node: spec.and_then(|s| s.node_name.clone()).unwrap_or_default(),
        service_account: if account.is_empty() {
            "default"
        } else {
            account
        }
        .to_owned(),
        labels: manifest.metadata.labels.clone().unwrap_or_default(),
        host_network: spec.and_then(|s| s.host_network).unwrap_or(false),
        finished: matches!(phase, "Succeeded" | "Failed"),
        terminating: manifest.metadata.deletion_timestamp.is_some(),
        ports: spec.map(|s| ports(s, findings)).unwrap_or_default(),
        weight: weight(&manifest.metadata, findings),
        unaccelerated: unaccelerated(&manifest.metadata, findings),
        in_mesh: membership::read(&manifest.metadata, findings),
    }
}

fn addresses(manifest: &Manifest, findings: &mut Findings) -> Vec<IpAddr> {
    let Some(status) = &manifest.status else {
        return Vec::new();
    };
    let ips = status.pod_ips.as_deref().unwrap_or_default();
    if !ips.is_empty() {
        return fields::addresses(
            ips.iter().map(|p| p.ip.as_str()),
            "status.podIPs",
            ".ip",
            findings,
        );
    }
    match status.pod_ip.as_deref().filter(|ip| !ip.is_empty()) {
        None => Vec::new(),
        Some(ip) => match fields::address(ip) {
            Ok(ip) => vec![ip],
            Err(message) => {
                findings.invalid("status.podIP", message);
                Vec::new()
            }
        },
    }
}

/// The kubelet always writes conditions; who writes a Pod by hand, with an address and no condition, means a running one.
fn is_ready(manifest: &Manifest, addresses: &[IpAddr]) -> bool {
    let conditions = manifest.status.as_ref().and_then(|s| s.conditions.as_ref());
    match conditions {
        Some(list) if !list.is_empty() => list
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True"),
        _ => !addresses.is_empty(),
    }
}

/// Named ports of containers, and of init containers that keep running.
fn ports(spec: &PodSpec, findings: &mut Findings) -> Vec<NamedPort> {
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .enumerate()
        .filter(|(_, c)| c.restart_policy.as_deref() == Some("Always"))
        .map(|(i, c)| ("initContainers", i, c));
    let containers = spec.containers.iter().enumerate();
    let mut named = Vec::new();
    for (list, i, container) in containers
        .map(|(i, c)| ("containers", i, c))
        .chain(sidecars)
    {
        for (j, port) in container.ports.iter().flatten().enumerate() {
            let Some(name) = port.name.as_ref().filter(|n| !n.is_empty()) else {
                continue;
            };
            let field = format!("spec.{list}[{i}].ports[{j}]");
            let protocol = fields::ip_protocol(
                port.protocol.as_deref(),
                &format!("{field}.protocol"),
                findings,
            );
            let number = fields::port(
                port.container_port,
                &format!("{field}.containerPort"),
                findings,
            );
            if let (Some(protocol), Some(port)) = (protocol, number) {
                named.push(NamedPort {
                    name: name.clone(),
                    protocol,
                    port,
                });
            }
        }
    }
    named
}

fn weight(metadata: &ObjectMeta, findings: &mut Findings) -> u32 {
    let Some(text) = metadata.annotations.as_ref().and_then(|a| a.get(WEIGHT)) else {
        return 1;
    };
    match text.parse::<u32>() {
        Ok(weight) if (1..=MAX_WEIGHT).contains(&weight) => weight,
        _ => {
            findings.unsupported(
                format!("metadata.annotations[{WEIGHT}]"),
                format!(
                    "{} is not a weight: give a whole number from 1 to {MAX_WEIGHT}; 1 is used",
                    shown(text)
                ),
            );
            1
        }
    }
}

/// Whoever writes the annotation has a reason not to want acceleration: what is not understood counts as "off".
fn unaccelerated(metadata: &ObjectMeta, findings: &mut Findings) -> bool {
    let annotations = metadata.annotations.as_ref();
    match annotations
        .and_then(|a| a.get(ACCELERATION))
        .map(String::as_str)
    {
        None | Some("auto") => false,
        Some("off") => true,
        Some(text) => {
            findings.unsupported(
                format!("metadata.annotations[{ACCELERATION}]"),
                format!(
                    "{} is neither \"auto\" nor \"off\"; off is used",
                    shown(text)
                ),
            );
            true
        }
    }
}
