//! What Weft is told: the pods of the lab, what is forbidden, and many services that nobody asks.

use anyhow::Result;
use serde_json::{Value, json};
use weft_lab::manifest::{self, ServiceManifest, ServicePort};
use weft_lab::{Lab, addr};

use super::family::{ALL, Family};
use super::{ALLOWED_PATH, PORT};

/// Where the further pods are said to be.
const ELSEWHERE: &str = "elsewhere";
/// Services in one file.
const PER_FILE: u32 = 25;

/// Writes all of it; `others` are services and pods of each, besides.
pub(super) fn write(lab: &Lab, others: (u32, u32)) -> Result<()> {
    lab.publish()?;
    let to = lab.manifests();
    for family in ALL.into_iter().filter(|family| family.is_weft()) {
        to.write(&format!("family-{}", family.slug()), &of(family))?;
    }
    let (services, pods) = others;
    to.write("others", &elsewhere())?;
    for first in (0..services).step_by(PER_FILE as usize) {
        let some = first..(first + PER_FILE).min(services);
        let objects = some.flat_map(|index| other(index, pods));
        to.write(&format!("others-{first:05}"), &manifest::documents(objects))?;
    }
    Ok(())
}

fn of(family: Family) -> String {
    let name = family.slug();
    let services = ["near", "far"]
        .into_iter()
        .zip(family.services())
        .map(|(side, index)| {
            let name = format!("{name}-{side}");
            let service = ServiceManifest::new(&name).cluster_ips(addr::service(index).both());
            service
                .port(ServicePort::tcp(PORT).named("http"))
                .selector("app", &name)
                .value()
        });
    let servers = json!({"matchLabels": {"serves": name}});
    let policies = match family {
        Family::Policy | Family::PolicyAccelerated => {
            vec![strict(name, &servers), requests(name, &servers)]
        }
        Family::Route => vec![route(name)],
        Family::Mtls | Family::MtlsAccelerated => {
            vec![strict(name, &servers), connections(name, &servers)]
        }
        _ => vec![connections(name, &servers)],
    };
    manifest::documents(
        services
            .chain(policies)
            .map(|object| object.to_string() + "\n"),
    )
}

fn object(api: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// Everything is forbidden but GET of one path, on one port, by one client.
fn requests(name: &str, servers: &Value) -> Value {
    let client = format!("cluster.local/ns/default/sa/{name}-client");
    let operation =
        json!({"methods": ["GET"], "paths": [ALLOWED_PATH], "ports": [PORT.to_string()]});
    let rule =
        json!({"from": [{"source": {"principals": [client]}}], "to": [{"operation": operation}]});
    let spec = json!({"selector": servers, "rules": [rule]});
    object("security.istio.io/v1", "AuthorizationPolicy", name, spec)
}

/// The same as far as layer 4 goes.
fn connections(name: &str, servers: &Value) -> Value {
    let client = json!({"podSelector": {"matchLabels": {"app": format!("{name}-client")}}});
    let spec = json!({
        "podSelector": servers, "policyTypes": ["Ingress"],
        "ingress": [{"from": [client], "ports": [{"protocol": "TCP", "port": PORT}]}],
    });
    object("networking.k8s.io/v1", "NetworkPolicy", name, spec)
}

fn strict(name: &str, servers: &Value) -> Value {
    let spec = json!({"selector": servers, "mtls": {"mode": "STRICT"}});
    object("security.istio.io/v1", "PeerAuthentication", name, spec)
}

fn route(name: &str) -> Value {
    let service = format!("{name}-near");
    let spec = json!({
        "parentRefs": [{"group": "", "kind": "Service", "name": service}],
        "rules": [{
            "matches": [{"path": {"type": "Exact", "value": ALLOWED_PATH}, "method": "GET"}],
            "backendRefs": [{"name": service, "port": PORT}],
        }],
    });
    object("gateway.networking.k8s.io/v1", "HTTPRoute", name, spec)
}

fn elsewhere() -> String {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": ELSEWHERE},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.201.1.1"}]},
    });
    manifest::documents([manifest::namespace("others"), node.to_string() + "\n"])
}

/// Service `index` and its pods: in all 500 services times 50 pods have addresses of their own.
fn other(index: u32, pods: u32) -> Vec<String> {
    let name = format!("other-{index:03}");
    let [high, low] = (index as u16).to_be_bytes();
    let metadata = |name: String| json!({"name": name, "namespace": "others", "labels": {"app": format!("other-{index:03}")}});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(name.clone()),
        "spec": {
            "clusterIP": format!("10.97.{high}.{low}"), "clusterIPs": [format!("10.97.{high}.{low}")],
            "selector": {"app": name}, "ports": [{"name": "http", "port": PORT, "protocol": "TCP", "targetPort": PORT}],
        },
    });
    let pod = |n: u32| {
        let address = format!("10.{}.{low}.{}", 128 + u32::from(high), n + 1);
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata(format!("other-{index:03}-{n:02}")),
            "spec": {"nodeName": ELSEWHERE, "serviceAccountName": format!("other-{index:03}"), "containers": [{"name": "c"}]},
            "status": {
                "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    };
    [service]
        .into_iter()
        .chain((0..pods.min(250)).map(pod))
        .map(|object| object.to_string() + "\n")
        .collect()
}
