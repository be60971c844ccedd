//! `weft status`: is this node in order, and if not, what is to be done.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::watch;
use weft_proto::model::Problem;
use weft_proto::resource::ResourceType;
use weft_proto::wire::admin::v1 as wire;

use crate::bpf::Attachment;
use crate::datapath::CounterSource;
use crate::engine::problem_row;
use crate::engine::view::Summary;
use crate::interfaces::{PodAttachment, Report};
use crate::metrics::{ProgramRuns, Snapshot};
use crate::policy::Shortage;
use crate::routing::RoutedBy;
use crate::tables::MapUsage;
use crate::xds::XdsStatus;

/// What is known about the agent apart from engine and stream.
#[derive(Clone)]
pub struct AgentFacts {
    /// Name of the node.
    pub node: String,
    /// Control plane for people.
    pub control: String,
    /// When the agent started.
    pub started: Instant,
    /// Every program and whether it is on its hook; empty before attaching.
    pub programs: Vec<Attachment>,
    /// Pods' interfaces; none before they are looked for.
    pub pods: Option<watch::Receiver<Report>>,
    /// What carries packets to pods of other nodes; none before that is found out.
    pub routed: Option<watch::Receiver<RoutedBy>>,
    /// What an operator should know about the start.
    pub warnings: Vec<String>,
    /// The kernel's counters.
    pub counters: Option<Arc<dyn CounterSource>>,
}

/// [`AgentFacts`] that fill up during the start.
#[derive(Clone)]
pub struct SharedFacts {
    inner: Arc<Mutex<AgentFacts>>,
}

impl SharedFacts {
    /// Shares `facts`.
    #[must_use]
    pub fn new(facts: AgentFacts) -> Self {
        Self {
            inner: Arc::new(Mutex::new(facts)),
        }
    }

    /// As they are now.
    #[must_use]
    pub fn snapshot(&self) -> AgentFacts {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes them.
    pub fn update(&self, change: impl FnOnce(&mut AgentFacts)) {
        change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl AgentFacts {
    /// Every program is on its hook, and every local pod's interface has its programs.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        !self.programs.is_empty()
            && self.programs.iter().all(|p| p.error.is_none())
            && self.pod_reasons().is_empty()
    }

    fn pod_reasons(&self) -> Vec<String> {
        let now = Instant::now();
        let report = self.pods.as_ref().map(watch::Receiver::borrow);
        report.map_or_else(Vec::new, |report| report.reasons(now))
    }

    fn interfaces(&self) -> Vec<wire::PodInterface> {
        let report = self.pods.as_ref().map(watch::Receiver::borrow);
        report.map_or_else(Vec::new, |report| {
            report.attachments.iter().map(interface).collect()
        })
    }

    /// Runs of the kernel's programs.
    pub(crate) fn program_runs(&self) -> Vec<ProgramRuns> {
        let source = self.counters.as_ref();
        source.map_or_else(Vec::new, |c| c.programs())
    }

    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.as_ref().map_or_else(Vec::new, |c| c.read())
    }
}

/// Why the agent is not ready; empty when it is.
///
/// `unjudged` are local pods whose policy is not in the kernel.
pub(crate) fn reasons(facts: &AgentFacts, xds: &XdsStatus, unjudged: &[String]) -> Vec<String> {
    let mut reasons = Vec::new();
    if facts.programs.is_empty() {
        reasons.push("programs are not attached yet".to_owned());
    }
    for program in &facts.programs {
        if let Some(error) = &program.error {
            reasons.push(format!(
                "program {} is not attached: {error}",
                program.program
            ));
        }
    }
    reasons.extend(facts.pod_reasons());
    if !xds.synced {
        reasons.push(unsynced(facts, xds));
    } else if let Some(first) = unjudged.first() {
        reasons.push(format!(
            "{} local pod(s) are refused everything until their policy is in the kernel, such as {first}",
            unjudged.len()
        ));
    }
    reasons
}

/// Those of the start, and tables of the kernel that have no room now.
fn warnings(facts: &AgentFacts, summary: &Summary) -> Vec<String> {
    let full = summary
        .maps
        .iter()
        .filter(|map| map.name == "ct" && map.entries >= map.capacity)
        .map(|map| {
            format!(
                "map ct is full ({} entries): new connections of pods are refused; raise it with --map-size ct=N",
                map.capacity
            )
        });
    let shortage = shortage(&summary.shortage);
    let start = facts.warnings.iter().cloned();
    start.chain(full).chain(shortage).collect()
}

/// Who is refused for want of room; nothing when nobody is.
fn shortage(shortage: &Shortage) -> Option<String> {
    let prefixes = &shortage.prefixes;
    if shortage.addresses == 0 && prefixes.is_empty() {
        return None;
    }
    let named: Vec<String> = prefixes.iter().take(3).map(ToString::to_string).collect();
    let with = match named.len() {
        0 => String::new(),
        _ => format!(
            ", and so is everybody without an entry of his own in {} prefix(es), such as {}",
            prefixes.len(),
            named.join(", ")
        ),
    };
    Some(format!(
        "{} address(es) found no room in the kernel's tables and are refused{with}: raise identities, cidr_identities and peer_rules with --map-size",
        shortage.addresses
    ))
}

fn unsynced(facts: &AgentFacts, xds: &XdsStatus) -> String {
    if !xds.connected {
        let why = xds.last_error.as_deref().unwrap_or("connecting");
        return format!("no control plane at {}: {why}", facts.control);
    }
    for needed in [ResourceType::Cluster, ResourceType::Listener] {
        if !xds.received.contains_key(&needed) {
            return format!("the control plane has sent no {needed} yet");
        }
    }
    match xds.awaited_endpoints {
        0 => "waiting for the control plane".to_owned(),
        n => format!("the control plane has yet to send the endpoints of {n} cluster(s)"),
    }
}

/// All of it.
pub(super) fn status(
    facts: &AgentFacts,
    xds: &XdsStatus,
    summary: Summary,
    problems: &[Problem],
) -> wire::Status {
    wire::Status {
        node: facts.node.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        control: facts.control.clone(),
        connected: xds.connected,
        synced: xds.synced,
        attached: facts.is_attached(),
        pid: std::process::id(),
        uptime_seconds: facts.started.elapsed().as_secs(),
        programs: facts.programs.iter().map(program).collect(),
        maps: summary.maps.iter().map(map).collect(),
        subscriptions: subscriptions(xds, &summary),
        rejections: rejections(xds, &summary),
        problems: problems.iter().map(problem_row).collect(),
        counters: facts.counters().into_iter().map(counter).collect(),
        reasons: reasons(facts, xds, &summary.unjudged),
        interfaces: facts.interfaces(),
        warnings: warnings(facts, &summary),
        policy_epoch: summary.policy_epoch,
        // The service knows.
        identities: None,
        host_routing: facts.routed.as_ref().map(host_routing),
    }
}

fn uplink((name, routed_mtu): &(String, u32)) -> wire::Uplink {
    wire::Uplink {
        name: name.clone(),
        routed_mtu: *routed_mtu,
    }
}

fn host_routing(routed: &watch::Receiver<RoutedBy>) -> wire::HostRouting {
    let now = routed.borrow();
    wire::HostRouting {
        by: if now.bpf { "bpf" } else { "stack" }.to_owned(),
        because: now.because.clone(),
        uplinks: now.uplinks.iter().map(uplink).collect(),
    }
}

/// The same as numbers.
pub(crate) fn snapshot(facts: &AgentFacts, xds: &XdsStatus, summary: &Summary) -> Snapshot {
    let of = |t: ResourceType| summary.rejections.iter().filter(|(r, _)| *r == t).count();
    Snapshot {
        connected: xds.connected,
        synced: xds.synced,
        policy_epoch: summary.policy_epoch,
        resources: summary.resources.clone(),
        rejected: ResourceType::ALL.into_iter().map(|t| (t, of(t))).collect(),
        maps: summary
            .maps
            .iter()
            .map(|m| {
                (
                    m.name.to_owned(),
                    m.entries as u64,
                    m.capacity as u64,
                    m.full,
                )
            })
            .collect(),
        refused_addresses: summary.shortage.addresses as u64,
        refused_prefixes: summary.shortage.prefixes.len() as u64,
        identities: Default::default(),
        services: Vec::new(),
        limits: Vec::new(),
        counters: facts.counters(),
        programs: facts.program_runs(),
    }
}

fn program(program: &Attachment) -> wire::Program {
    wire::Program {
        name: program.program.clone(),
        attach_type: program.hook.clone(),
        attached: program.error.is_none(),
        error: program.error.clone().unwrap_or_default(),
    }
}

fn interface(pod: &PodAttachment) -> wire::PodInterface {
    wire::PodInterface {
        workloads: pod.workloads.clone(),
        addresses: pod.addresses.iter().map(ToString::to_string).collect(),
        interface: pod.interface.clone(),
        index: pod.index.get(),
        hook: pod.hook.to_owned(),
        attached: pod.error.is_none(),
        error: pod.error.clone().unwrap_or_default(),
    }
}

fn map(usage: &MapUsage) -> wire::Map {
    wire::Map {
        name: usage.name.to_owned(),
        entries: usage.entries as u64,
        max_entries: usage.capacity as u64,
        full: usage.full,
    }
}

fn counter((name, value): (&'static str, u64)) -> wire::Counter {
    wire::Counter {
        name: name.to_owned(),
        value,
    }
}

fn subscriptions(xds: &XdsStatus, summary: &Summary) -> Vec<wire::Subscription> {
    summary
        .resources
        .iter()
        .filter(|(t, _)| !xds.unsupported.contains(t))
        .map(|(resource_type, resources)| wire::Subscription {
            type_url: resource_type.type_url().to_owned(),
            resources: *resources as u64,
            last_nonce: xds.received.get(resource_type).cloned().unwrap_or_default(),
            received: xds.received.contains_key(resource_type),
        })
        .collect()
}

fn rejections(xds: &XdsStatus, summary: &Summary) -> Vec<wire::Rejection> {
    let refused = summary
        .rejections
        .iter()
        .map(|(resource_type, rejection)| wire::Rejection {
            type_url: resource_type.type_url().to_owned(),
            resource: rejection.name.clone(),
            reason: rejection.reason.clone(),
        });
    let missing = xds.missing_endpoints.iter().map(|name| wire::Rejection {
        type_url: ResourceType::Endpoints.type_url().to_owned(),
        resource: name.clone(),
        reason: "the control plane has not sent it in time: counts as empty".to_owned(),
    });
    refused.chain(missing).collect()
}
