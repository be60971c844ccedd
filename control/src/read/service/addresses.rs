//! A service's addresses, by where they come from.

use std::collections::HashSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ServiceSpec, ServiceStatus};

use crate::read::fields;
use crate::read::findings::Findings;
use crate::read::names::shown;

/// No address is in two lists.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// `clusterIPs`.
    pub(super) cluster: Vec<IpAddr>,
    /// `externalIPs`.
    pub(super) external: Vec<IpAddr>,
    /// Of load balancers.
    pub(super) balancer: Vec<IpAddr>,
}

impl Addresses {
    /// Every address the service answers on; none when Weft is to leave it alone.
    pub(super) fn read(
        spec: &ServiceSpec,
        status: Option<&ServiceStatus>,
        findings: &mut Findings,
    ) -> Self {
        match spec.type_.as_deref().unwrap_or("ClusterIP") {
            "ClusterIP" | "NodePort" | "LoadBalancer" => {}
            "ExternalName" => return Self::default(),
            other => {
                findings.invalid(
                    "spec.type",
                    format!(
                        "{} is not ClusterIP, NodePort, LoadBalancer or ExternalName",
                        shown(other)
                    ),
                );
                return Self::default();
            }
        }
        let Some(mut cluster) = cluster_ips(spec, findings) else {
            return Self::default();
        };
        let external = spec.external_ips.iter().flatten().map(String::as_str);
        let mut external = fields::addresses(external, "spec.externalIPs", "", findings);
        let mut balancer = load_balancer(status, findings);
        // What is in several lists is in the one that opens it least.
        let mut seen = HashSet::new();
        for list in [&mut cluster, &mut balancer, &mut external] {
            list.retain(|ip| seen.insert(*ip));
        }
        Self {
            cluster,
            external,
            balancer,
        }
    }

    /// All of them, each once.
    pub(super) fn all(&self) -> Vec<IpAddr> {
        let lists = [&self.cluster, &self.external, &self.balancer];
        lists.into_iter().flatten().copied().collect()
    }
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
