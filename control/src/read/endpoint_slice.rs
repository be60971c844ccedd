//! `discovery.k8s.io/v1` EndpointSlice.

use std::sync::Arc;

use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointPort, EndpointSlice as Manifest,
};
use weft_proto::model::Health;

use super::fields;
use super::findings::Findings;
use super::names::shown;
use crate::object::{EndpointSlice, ObjectName, SliceEndpoint, SlicePort};

const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// `None` for a slice that belongs to no service, or whose addresses are not addresses.
pub(super) fn read(
    manifest: &Manifest,
    namespace: &str,
    findings: &mut Findings,
) -> Option<EndpointSlice> {
    let service = fields::label(&manifest.metadata, SERVICE_NAME);
    if service.is_empty() {
        findings.warn(
            "metadata.labels",
            format!("{SERVICE_NAME} is missing, so no Service uses this slice"),
        );
        return None;
    }
    let v4 = match manifest.address_type.as_str() {
        "IPv4" => true,
        "IPv6" => false,
        "FQDN" => {
            findings.unsupported(
                "addressType",
                "FQDN is not supported: give endpoints by IPv4 or IPv6 address",
            );
            return None;
        }
        other => {
            findings.invalid(
                "addressType",
                format!("{} is not IPv4 or IPv6", shown(other)),
            );
            return None;
        }
    };
    Some(EndpointSlice {
        service: Arc::from(service),
        ports: ports(manifest.ports.as_deref().unwrap_or_default(), findings),
        endpoints: manifest
            .endpoints
            .iter()
            .enumerate()
            .filter_map(|(i, e)| endpoint(e, i, v4, namespace, findings))
            .collect(),
    })
}

fn ports(list: &[EndpointPort], findings: &mut Findings) -> Vec<SlicePort> {
    let mut good = Vec::with_capacity(list.len());
    for (i, entry) in list.iter().enumerate() {
        let Some(number) = entry.port else {
            findings.unsupported(
                format!("ports[{i}].port"),
                "is missing, which means all ports: give a number",
            );
            continue;
        };
        let protocol = fields::protocol(
            entry.protocol.as_deref(),
            &format!("ports[{i}].protocol"),
            findings,
        );
        let port = fields::port(number, &format!("ports[{i}].port"), findings);
        if let (Some(protocol), Some(port)) = (protocol, port) {
            good.push(SlicePort {
                name: entry.name.clone().unwrap_or_default(),
                protocol,
                port,
            });
        }
    }
    good
}

fn endpoint(
    entry: &Endpoint,
    i: usize,
    v4: bool,
    namespace: &str,
    findings: &mut Findings,
) -> Option<SliceEndpoint> {
    let Some(text) = entry.addresses.first() else {
        findings.invalid(
            format!("endpoints[{i}].addresses"),
            "is empty: give one address",
        );
        return None;
    };
    let field = || format!("endpoints[{i}].addresses[0]");
    let address = match fields::address(text) {
        Ok(ip) if ip.is_ipv4() == v4 => ip,
        Ok(ip) => {
            let family = if v4 { "IPv4" } else { "IPv6" };
            findings.invalid(field(), format!("{ip} is not of addressType {family}"));
            return None;
        }
        Err(message) => {
            findings.invalid(field(), message);
            return None;
        }
    };
    let pod = entry
        .target_ref
        .as_ref()
        .filter(|t| t.kind.as_deref() == Some("Pod"));
    Some(SliceEndpoint {
        address,
        health: health(entry.conditions.as_ref()),
        node: entry.node_name.clone().unwrap_or_default(),
        zone: entry.zone.clone().unwrap_or_default(),
        pod: pod.and_then(|t| {
            let namespace = t.namespace.as_deref().unwrap_or(namespace);
            Some(ObjectName::new(namespace, t.name.as_deref()?))
        }),
    })
}

/// As kube-proxy judges: `ready` and `serving` count as true and `terminating` as false when they are not given.
fn health(conditions: Option<&EndpointConditions>) -> Health {
    let get = |f: fn(&EndpointConditions) -> Option<bool>| conditions.and_then(f);
    if get(|c| c.ready).unwrap_or(true) {
        Health::Healthy
    } else if get(|c| c.serving).unwrap_or(true) && get(|c| c.terminating).unwrap_or(false) {
        Health::Draining
    } else {
        Health::Unhealthy
    }
}
