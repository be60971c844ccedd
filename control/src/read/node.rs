//! `v1` Node.

use k8s_openapi::api::core::v1::Node as Manifest;

use super::fields;
use super::findings::Findings;
use crate::object::Node;

pub(super) fn read(manifest: &Manifest, findings: &mut Findings) -> Node {
    let mut addresses = Vec::new();
    let list = manifest.status.as_ref().and_then(|s| s.addresses.as_ref());
    for (i, entry) in list.into_iter().flatten().enumerate() {
        // The others are host names.
        if !matches!(entry.type_.as_str(), "InternalIP" | "ExternalIP") {
            continue;
        }
        match fields::address(&entry.address) {
            Ok(ip) if addresses.contains(&ip) => {}
            Ok(ip) => addresses.push(ip),
            Err(message) => findings.invalid(format!("status.addresses[{i}].address"), message),
        }
    }
    Node {
        addresses,
        zone: fields::label(&manifest.metadata, "topology.kubernetes.io/zone").to_owned(),
        labels: manifest.metadata.labels.clone().unwrap_or_default(),
    }
}
