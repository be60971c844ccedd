//! The cluster, as a folder of manifests.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

/// Objects in one file.
const PER_FILE: u32 = 1_000;
const NAMESPACES: u32 = 100;

/// A folder that is removed when dropped.
pub(super) struct World {
    folder: PathBuf,
    services: u32,
    per_service: u32,
    pods: u32,
    nodes: u32,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl World {
    pub(super) fn write(services: u32, endpoints: u32, pods: u32, nodes: u32) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("weft-bench-scale-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let world = Self {
            folder,
            services,
            per_service: endpoints / services.max(1),
            pods,
            nodes,
        };
        world.write_all("nodes", nodes, |n| world.node(n))?;
        world.write_all("services", services, |n| world.service(n))?;
        world.write_all("pods", pods, |n| world.pod(n))?;
        world.write_all("slices", services.saturating_sub(1), |n| {
            world.slice(n + 1, true)
        })?;
        world.change(1)?;
        Ok(world)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What an agent holds in the end, but for endpoints: a listener and a cluster of each service, and all workloads.
    pub(super) fn resources(&self) -> u64 {
        u64::from(2 * self.services + self.pods + self.nodes)
    }

    /// Makes the first endpoint of the first service unready, or ready again.
    pub(super) fn change(&self, number: u32) -> Result<()> {
        let text = serde_json::to_string(&self.slice(0, number % 2 == 1))?;
        // Replaced in one step, as editors and controllers do.
        let next = self.folder.join(".next");
        fs::write(&next, text)?;
        fs::rename(&next, self.folder.join("changing.json"))?;
        Ok(())
    }

    fn write_all(&self, name: &str, count: u32, object: impl Fn(u32) -> Value) -> Result<()> {
        for file in 0..count.div_ceil(PER_FILE) {
            let numbers = file * PER_FILE..((file + 1) * PER_FILE).min(count);
            let items: Vec<Value> = numbers.map(&object).collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
            let path = self.folder.join(format!("{name}-{file}.json"));
            fs::write(path, serde_json::to_string(&list)?)?;
        }
        Ok(())
    }

    fn node(&self, number: u32) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node_name(number), "labels": {
                "kubernetes.io/hostname": node_name(number),
                "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
            }},
            "status": {"addresses": [{"type": "InternalIP", "address": address(172, 16, number)}]},
        })
    }

    fn service(&self, number: u32) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": format!("service-{number}"), "namespace": namespace(number)},
            "spec": {
                "clusterIP": address(10, 96, number),
                "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            },
        })
    }

    fn slice(&self, service: u32, ready: bool) -> Value {
        let endpoints: Vec<Value> = (0..self.per_service)
            .map(|n| {
                let pod = (service * self.per_service + n) % self.pods.max(1);
                json!({
                    "addresses": [address(10, 128, pod)],
                    "nodeName": node_name(pod % self.nodes.max(1)),
                    "zone": format!("zone-{}", pod % 3),
                    "conditions": {"ready": ready || n > 0, "serving": true, "terminating": false},
                })
            })
            .collect();
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": format!("service-{service}-abcde"),
                "namespace": namespace(service),
                "labels": {"kubernetes.io/service-name": format!("service-{service}")},
            },
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": endpoints,
        })
    }

    fn pod(&self, number: u32) -> Value {
        let app = number / 10;
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("app-{app}-6d5f8c7b9-{number:05}"),
                "namespace": namespace(app),
                "labels": {
                    "app.kubernetes.io/name": format!("app-{app}"),
                    "app.kubernetes.io/version": "1.2.3",
                    "pod-template-hash": "6d5f8c7b9",
                },
            },
            "spec": {
                "nodeName": node_name(number % self.nodes.max(1)),
                "serviceAccountName": format!("app-{app}"),
                "containers": [{"name": "app", "ports": [{"name": "http", "containerPort": 8080}]}],
            },
            "status": {
                "phase": "Running",
                "podIPs": [{"ip": address(10, 128, number)}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    }
}

fn namespace(number: u32) -> String {
    format!("team-{}", number % NAMESPACES)
}

fn node_name(number: u32) -> String {
    format!("node-{number:04}")
}

/// The `number`th address from A.B.0.1 on.
fn address(a: u8, b: u8, number: u32) -> Ipv4Addr {
    let first = u32::from(Ipv4Addr::new(a, b, 0, 1));
    Ipv4Addr::from(first + number)
}
