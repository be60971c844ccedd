//! What it costs to be there for the pods of a node: memory of a sidecar in each pod, and of Weft's agent, Envoy and maps.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_lab::{Lab, LabBuilder, Pod, PodSpec, Weft, WeftOptions, manifest};

use super::certificates::issue;
use super::envoy::{Client, Sidecar};
use super::{ALLOWED_PATH, PORT, programs};

const WEFT_NODE: &str = "crowd-weft";
const SIDECAR_NODE: &str = "crowd-pair";
const READY: Duration = Duration::from_secs(180);
/// Sidecars that know all services, of which there are too many for a small machine.
const FULL: usize = 5;
/// What starts gives back memory for some time.
const SETTLE: Duration = Duration::from_secs(5);

/// Memory, MiB, of what is there for the pods of one node.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Memory {
    /// Pods of the node.
    pub(super) pods: u32,
    /// One sidecar for each, each knowing one service.
    pub(super) sidecars: f64,
    /// One sidecar for each, each knowing all services of the cluster: so many times what [`FULL`] of them take.
    pub(super) full_sidecars: f64,
    /// Weft's Envoy.
    pub(super) envoy: f64,
    /// Weft's agent.
    pub(super) agent: f64,
    /// Maps in the kernel.
    pub(super) maps: f64,
}

impl Memory {
    /// Of Weft in all.
    pub(super) fn weft(&self) -> f64 {
        self.envoy + self.agent + self.maps
    }
}

/// Adds the two nodes; their pods come when they are needed.
pub(super) fn describe(lab: LabBuilder) -> LabBuilder {
    lab.node(WEFT_NODE).node(SIDECAR_NODE)
}

/// Fills both nodes with `pods` pods, and reads what is there for them. `others` are services of the cluster and pods of each.
pub(super) fn measure(
    lab: &Lab,
    control: &str,
    envoy: &Path,
    pods: u32,
    others: (u32, u32),
) -> Result<Memory> {
    let crowd = |node: &str, kind: &str| -> Result<Vec<Pod>> {
        let spec = |index| {
            let name = format!("{kind}-{index:02}");
            PodSpec::new(&name, node)
                .label("crowd", kind)
                .label("app", &name)
                .service_account(&name)
        };
        (0..pods)
            .map(|index| Ok(lab.add_pod(spec(index))?))
            .collect()
    };
    let weft_pods = crowd(WEFT_NODE, "one")?;
    let sidecar_pods = crowd(SIDECAR_NODE, "many")?;
    let (agent, node_envoy, maps) = weft(lab, control, envoy, &weft_pods)?;
    let (sidecars, full_sidecars) = sidecars(lab, envoy, &sidecar_pods, others)?;
    Ok(Memory {
        pods,
        sidecars,
        full_sidecars,
        envoy: node_envoy,
        agent,
        maps,
    })
}

/// Every pod has an identity of its own, takes tunnels alone, and is asked about requests.
fn weft(lab: &Lab, control: &str, envoy: &Path, pods: &[Pod]) -> Result<(f64, f64, f64)> {
    let selector = json!({"matchLabels": {"crowd": "one"}});
    let operation =
        json!({"methods": ["GET"], "paths": [ALLOWED_PATH], "ports": [PORT.to_string()]});
    let client = "cluster.local/ns/default/sa/policy-client";
    let object = |api: &str, kind: &str, spec| json!({"apiVersion": api, "kind": kind, "metadata": {"name": "crowd", "namespace": "default"}, "spec": spec});
    let rule =
        json!({"from": [{"source": {"principals": [client]}}], "to": [{"operation": operation}]});
    let policy = object(
        "security.istio.io/v1",
        "AuthorizationPolicy",
        json!({"selector": selector, "rules": [rule]}),
    );
    let strict = object(
        "security.istio.io/v1",
        "PeerAuthentication",
        json!({"selector": selector, "mtls": {"mode": "STRICT"}}),
    );
    let objects = pods.iter().map(|pod| pod.manifest().yaml());
    let objects = objects.chain([policy, strict].map(|o| o.to_string() + "\n"));
    lab.manifests()
        .write("crowd", &manifest::documents(objects))?;
    let node = lab.node(WEFT_NODE)?;
    let mut weft = Weft::agent(
        &node,
        control,
        WeftOptions::default().arg("--envoy").arg(envoy),
    )?;
    weft.wait_ready(READY)?;
    std::thread::sleep(SETTLE);
    let agent = weft.process().pid();
    let envoy = envoy_of(agent)?;
    Ok((together(&[agent])?, together(&[envoy])?, maps_of(agent)?))
}

fn sidecars(lab: &Lab, envoy: &Path, pods: &[Pod], others: (u32, u32)) -> Result<(f64, f64)> {
    let certificates = issue(&["spiffe://cluster.local/ns/default/sa/many"])?;
    let certificate = certificates.first();
    let start = |pod: &Pod, others| {
        let own = pod.addresses().v4;
        let config = Sidecar {
            asks: vec![(own, own)],
            admits: Some(Client::Address(own)),
            certificate,
            others,
        };
        programs::sidecar(lab, pod, envoy, &config)
    };
    let all = pods
        .iter()
        .map(|pod| start(pod, (0, 0)))
        .collect::<Result<Vec<_>>>()?;
    std::thread::sleep(SETTLE);
    let pids: Vec<u32> = all.iter().map(|process| process.pid()).collect();
    let many = together(&pids)?;
    drop(all);
    let full = pods
        .iter()
        .take(FULL)
        .map(|pod| start(pod, others))
        .collect::<Result<Vec<_>>>()?;
    std::thread::sleep(SETTLE);
    let pids: Vec<u32> = full.iter().map(|process| process.pid()).collect();
    let (own, common) = split(&pids)?;
    let each = own / pids.len().max(1) as f64;
    Ok((many, each * pods.len() as f64 + common))
}

/// Memory of processes of one program, MiB: what each has for itself, and once what they share.
pub(super) fn together(pids: &[u32]) -> Result<f64> {
    let (own, common) = split(pids)?;
    Ok(own + common)
}

/// What processes of one program have for themselves, all of them together, and what they share, MiB.
fn split(pids: &[u32]) -> Result<(f64, f64)> {
    let (mut private, mut shared) = (0.0, 0.0_f64);
    for pid in pids {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let (own, common) = parse(&text);
        private += own;
        shared = shared.max(common);
    }
    Ok((private / 1024.0, shared / 1024.0))
}

/// What is private, and what may be shared, KiB.
fn parse(rollup: &str) -> (f64, f64) {
    let field = |name: &str| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        kib.unwrap_or_default()
    };
    let private = field("Private_Clean:") + field("Private_Dirty:");
    (private, field("Rss:") - private)
}

/// Memory of the maps that a process holds, MiB.
fn maps_of(pid: u32) -> Result<f64> {
    let mut maps: BTreeMap<u64, f64> = BTreeMap::new();
    let folder = format!("/proc/{pid}/fdinfo");
    for entry in fs::read_dir(&folder)
        .with_context(|| format!("reading {folder}"))?
        .flatten()
    {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let field = |name: &str| {
            text.lines()
                .find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        if let (Some(id), Some(bytes)) = (field("map_id:"), field("memlock:")) {
            maps.insert(id, bytes as f64);
        }
    }
    Ok(maps.values().sum::<f64>() / f64::from(1 << 20))
}

/// The Envoy below an agent.
pub(super) fn envoy_of(agent: u32) -> Result<u32> {
    for task in fs::read_dir(format!("/proc/{agent}/task"))
        .context("reading the agent's threads")?
        .flatten()
    {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            if name.starts_with("envoy") {
                return child.parse().context("a process number");
            }
        }
    }
    anyhow::bail!("no Envoy below process {agent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_pages_count_once() {
        let text = "55d000-7ff000 ---p 00000000 00:00 0 [rollup]\nRss:   900 kB\nPss: 500 kB\nPrivate_Clean: 100 kB\nPrivate_Dirty: 300 kB\n";
        assert_eq!(parse(text), (400.0, 500.0));
    }
}
