//! Reads Nodes and Pods out of a folder of manifests, so that a lab can be built to match it.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{DualStack, LabError, PodSpec, Result, addr};

const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// A node as a manifest describes it.
#[derive(Debug)]
pub(crate) struct NodeFound {
    pub(crate) name: String,
    pub(crate) zone: Option<String>,
    addresses: DualStack,
}

/// The parts of any object that the lab builds on; all other fields are passed over.
#[derive(Debug, Deserialize)]
struct Object {
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: String,
    service_account_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    addresses: Vec<NodeAddress>,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<PodIp>,
}

#[derive(Debug, Deserialize)]
struct NodeAddress {
    address: IpAddr,
}

#[derive(Debug, Deserialize)]
struct PodIp {
    ip: IpAddr,
}

/// Nodes in the order of their addresses, and pods with theirs.
///
/// # Errors
/// [`LabError::Manifest`] for a file that cannot be parsed or addresses that are not those of the lab's plan.
pub(crate) fn read(dir: &Path) -> Result<(Vec<NodeFound>, Vec<PodSpec>)> {
    let (mut nodes, mut pods) = (Vec::new(), Vec::new());
    for path in files(dir)? {
        let text = fs::read_to_string(&path).map_err(LabError::io("read", &path))?;
        let wrong = |reason: String| LabError::Manifest {
            path: path.clone(),
            reason,
        };
        let objects: Vec<Object> =
            serde_saphyr::from_multiple(&text).map_err(|error| wrong(error.to_string()))?;
        for object in objects {
            match object.kind.as_str() {
                "Node" => nodes.push(node(object).map_err(wrong)?),
                "Pod" => pods.push(pod(object).map_err(wrong)?),
                _ => {}
            }
        }
    }
    nodes.sort_by_key(|node| node.addresses.v4);
    check_plan(dir, &nodes)?;
    Ok((nodes, pods))
}

/// YAML files of a folder, sorted by name.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(LabError::io("list", dir))? {
        let path = entry.map_err(LabError::io("list", dir))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn node(mut object: Object) -> Result<NodeFound, String> {
    let ips = object.status.addresses.iter().map(|entry| entry.address);
    Ok(NodeFound {
        addresses: dual_stack(&object.metadata.name, "status.addresses", ips)?,
        zone: object.metadata.labels.remove(ZONE_LABEL),
        name: object.metadata.name,
    })
}

fn pod(object: Object) -> Result<PodSpec, String> {
    let Object {
        metadata,
        spec,
        status,
        ..
    } = object;
    let ips = status.pod_ips.iter().map(|entry| entry.ip);
    let addresses = dual_stack(&metadata.name, "status.podIPs", ips)?;
    let mut pod = PodSpec::new(metadata.name, spec.node_name).addresses(addresses);
    if let Some(namespace) = metadata.namespace {
        pod = pod.namespace(namespace);
    }
    if let Some(account) = spec.service_account_name {
        pod = pod.service_account(account);
    }
    Ok(metadata
        .labels
        .into_iter()
        .fold(pod, |pod, (key, value)| pod.label(key, value)))
}

fn dual_stack(
    name: &str,
    field: &str,
    ips: impl Iterator<Item = IpAddr> + Clone,
) -> Result<DualStack, String> {
    let v4: Option<Ipv4Addr> = ips.clone().find_map(|ip| match ip {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    });
    let v6: Option<Ipv6Addr> = ips.clone().find_map(|ip| match ip {
        IpAddr::V6(v6) => Some(v6),
        IpAddr::V4(_) => None,
    });
    match (v4, v6) {
        (Some(v4), Some(v6)) => Ok(DualStack { v4, v6 }),
        _ => Err(format!("{name}: {field} needs an IPv4 and an IPv6 address")),
    }
}

fn check_plan(dir: &Path, nodes: &[NodeFound]) -> Result<()> {
    for (index, node) in (1..).zip(nodes) {
        if node.addresses != addr::node(index) {
            return Err(LabError::Manifest {
                path: dir.to_owned(),
                reason: format!(
                    "node {} has {:?}, the lab would give it {:?}",
                    node.name,
                    node.addresses.both(),
                    addr::node(index).both()
                ),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<(Vec<NodeFound>, Vec<PodSpec>)> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("objects.yaml"), text).unwrap();
        read(dir.path())
    }

    const NODE: &str = "kind: Node\nmetadata: {name: a}\nstatus: {addresses: [{address: 10.201.0.1}, {address: 'fd00:201::1'}]}\n";

    #[test]
    fn reads_nodes_and_pods_and_passes_over_the_rest() {
        let text = format!(
            "{NODE}---\nkind: Service\nmetadata: {{name: s}}\nspec: {{ports: [{{port: 80}}]}}\n---\nkind: Pod\n\
             metadata: {{name: p, namespace: shop, labels: {{app: web}}}}\nspec: {{nodeName: a}}\n\
             status: {{podIPs: [{{ip: 10.244.1.10}}, {{ip: 'fd00:244:1::a'}}]}}\n"
        );
        let (nodes, pods) = read_text(&text).unwrap();
        assert_eq!(nodes.len(), 1);
        assert_eq!(pods.len(), 1);
        assert_eq!(
            (pods[0].node.as_str(), pods[0].namespace.as_str()),
            ("a", "shop")
        );
        assert_eq!(pods[0].addresses, Some(addr::pod(1, 0)));
        assert_eq!(pods[0].labels["app"], "web");
    }

    #[test]
    fn an_error_names_the_file_or_the_object() {
        for (text, expected) in [
            ("kind: [", "objects.yaml"),
            ("kind: Node\nmetadata: {name: b}\n", "b: status.addresses"),
            (&NODE.replace("10.201.0.1", "10.201.0.7"), "node a has"),
        ] {
            let error = read_text(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
