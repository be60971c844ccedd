//! What a service says of clients outside the cluster.

use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::{Service as Manifest, ServiceSpec};
use weft_proto::model::LocalityMode;
use weft_proto::model::policy::Cidr;

use super::addresses::Addresses;
use crate::object::Outside;
use crate::read::cidr;
use crate::read::fields;
use crate::read::findings::Findings;
use crate::read::names::shown;

/// What `loadBalancerSourceRanges` was, and still is where that is empty.
const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const LOAD_BALANCER: &str = "LoadBalancer";

/// `near`: what `trafficDistribution` says.
pub(super) fn read(
    manifest: &Manifest,
    spec: &ServiceSpec,
    addresses: Addresses,
    near: LocalityMode,
    findings: &mut Findings,
) -> Outside {
    let is_local = is_local(spec, findings);
    Outside {
        external_ips: addresses.external,
        balancer_ips: addresses.balancer,
        source_ranges: source_ranges(manifest, spec, findings),
        locality: if is_local {
            LocalityMode::NodeOnly
        } else {
            near
        },
        health_check_port: health_check_port(spec, is_local, findings),
    }
}

fn is_local(spec: &ServiceSpec, findings: &mut Findings) -> bool {
    match spec.external_traffic_policy.as_deref().unwrap_or("Cluster") {
        "Cluster" | "" => false,
        "Local" => true,
        other => {
            findings.invalid(
                "spec.externalTrafficPolicy",
                format!("{} is not Cluster or Local", shown(other)),
            );
            false
        }
    }
}

fn has_balancer(spec: &ServiceSpec) -> bool {
    spec.type_.as_deref() == Some(LOAD_BALANCER)
}

/// As kube-proxy, this asks for the port only where a load balancer has a reason to.
fn health_check_port(spec: &ServiceSpec, is_local: bool, findings: &mut Findings) -> Option<u16> {
    let number = spec.health_check_node_port.filter(|number| *number != 0)?;
    let port = fields::port(number, "spec.healthCheckNodePort", findings);
    port.filter(|_| is_local && has_balancer(spec))
}

/// Empty: everybody. When something was said and none of it can be read, nobody.
fn source_ranges(manifest: &Manifest, spec: &ServiceSpec, findings: &mut Findings) -> Vec<Cidr> {
    let list = spec.load_balancer_source_ranges.iter().flatten();
    let mut said: Vec<(String, &str)> = list
        .enumerate()
        .map(|(i, text)| (format!("spec.loadBalancerSourceRanges[{i}]"), text.trim()))
        .collect();
    if said.is_empty() {
        let annotations = manifest.metadata.annotations.as_ref();
        let text = annotations.and_then(|all| all.get(ANNOTATION));
        let text = text.map(|text| text.trim()).filter(|text| !text.is_empty());
        let field = format!("metadata.annotations[{ANNOTATION}]");
        let parts = text.into_iter().flat_map(|text| text.split(','));
        said.extend(parts.map(|part| (field.clone(), part.trim())));
    }
    let Some((field, _)) = said.first() else {
        return Vec::new();
    };
    if !has_balancer(spec) {
        findings.invalid(
            field.clone(),
            "is for services of type LoadBalancer: node ports and externalIPs are open to all",
        );
    }
    let mut good = Vec::new();
    for (field, text) in said {
        match cidr::range(text) {
            Ok(range) if good.contains(&range) => {}
            Ok(range) => good.push(range),
            Err(message) => findings.invalid(field, message),
        }
    }
    if good.is_empty() {
        good.extend(nobody());
    }
    good
}

/// The address that no host has (RFC 6890).
fn nobody() -> Option<Cidr> {
    Cidr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 32)
}
