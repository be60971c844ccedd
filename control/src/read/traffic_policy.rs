//! `weft.io/v1alpha1` TrafficPolicy.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use weft_proto::model::{self, LbPolicy, LocalityMode};

use super::duration::GoDuration;
use super::findings::Findings;
use super::names::{check_label, shown};
use crate::object::TrafficPolicy;

const MAX_AFFINITY: Duration = Duration::from_secs(86_400);
// As Envoy's.
const DEFAULT_FAILURES: u32 = 5;
const DEFAULT_EJECTION: Duration = Duration::from_secs(30);
const DEFAULT_EJECTED_PERCENT: u32 = 10;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Manifest {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub(super) metadata: ObjectMeta,
    spec: Spec,
    #[serde(default, rename = "status")]
    _status: serde::de::IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    target_refs: Vec<TargetRef>,
    #[serde(default)]
    load_balancing: LoadBalancing,
    #[serde(default)]
    timeouts: Timeouts,
    #[serde(default)]
    limits: Limits,
    outlier: Option<Outlier>,
    #[serde(default)]
    acceleration: Acceleration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Acceleration {
    #[default]
    Auto,
    Disabled,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetRef {
    #[serde(default)]
    group: String,
    kind: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LoadBalancing {
    policy: Option<Policy>,
    session_affinity: Option<SessionAffinity>,
    locality: Option<Locality>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Policy {
    Random,
    RoundRobin,
    LeastRequest,
    Maglev,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Locality {
    None,
    PreferNode,
    PreferZone,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionAffinity {
    timeout: GoDuration,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Timeouts {
    connect: Option<GoDuration>,
    idle: Option<GoDuration>,
    max_duration: Option<GoDuration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Limits {
    max_connections: Option<u32>,
    connections_per_second: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Outlier {
    consecutive_failures: Option<u32>,
    base_ejection: Option<GoDuration>,
    max_ejected_percent: Option<u32>,
}

pub(super) fn read(manifest: &Manifest, findings: &mut Findings) -> TrafficPolicy {
    let spec = &manifest.spec;
    let balancing = &spec.load_balancing;
    TrafficPolicy {
        targets: targets(&spec.target_refs, findings),
        policy: balancing.policy.map(|p| match p {
            Policy::Random => LbPolicy::Random,
            Policy::RoundRobin => LbPolicy::RoundRobin,
            Policy::LeastRequest => LbPolicy::LeastRequest,
            Policy::Maglev => LbPolicy::Maglev,
        }),
        affinity: affinity(balancing.session_affinity.as_ref(), findings),
        locality: balancing.locality.map(|l| match l {
            Locality::None => LocalityMode::None,
            Locality::PreferNode => LocalityMode::PreferNode,
            Locality::PreferZone => LocalityMode::PreferZone,
        }),
        connect_timeout: spec.timeouts.connect.map(|d| d.0),
        idle_timeout: spec.timeouts.idle.map(|d| d.0),
        max_duration: spec.timeouts.max_duration.map(|d| d.0),
        max_connections: limit(spec.limits.max_connections, "maxConnections", findings),
        connections_per_second: limit(
            spec.limits.connections_per_second,
            "connectionsPerSecond",
            findings,
        ),
        outlier: spec.outlier.as_ref().map(|o| outlier(o, findings)),
        unaccelerated: spec.acceleration == Acceleration::Disabled,
    }
}

fn targets(refs: &[TargetRef], findings: &mut Findings) -> Vec<Arc<str>> {
    if refs.is_empty() {
        findings.invalid("spec.targetRefs", "is empty: name at least one Service");
    }
    let mut targets: Vec<Arc<str>> = Vec::with_capacity(refs.len());
    for (i, target) in refs.iter().enumerate() {
        let field = format!("spec.targetRefs[{i}]");
        if !matches!(target.group.as_str(), "" | "core") || target.kind != "Service" {
            findings.invalid(
                format!("{field}.kind"),
                format!("{} is not Service", shown(&target.kind)),
            );
        } else if let Err(message) = check_label(&target.name) {
            findings.invalid(format!("{field}.name"), message);
        } else if !targets.iter().any(|t| **t == *target.name) {
            targets.push(Arc::from(target.name.as_str()));
        }
    }
    targets
}

fn affinity(setting: Option<&SessionAffinity>, findings: &mut Findings) -> Option<Duration> {
    let timeout = setting?.timeout.0;
    if (Duration::from_secs(1)..=MAX_AFFINITY).contains(&timeout) {
        return Some(timeout);
    }
    findings.invalid(
        "spec.loadBalancing.sessionAffinity.timeout",
        "is not in 1s to 24h",
    );
    None
}

/// A limit that is not 0, which would refuse everything.
fn limit(value: Option<u32>, name: &str, findings: &mut Findings) -> Option<u32> {
    if value == Some(0) {
        findings.invalid(
            format!("spec.limits.{name}"),
            "is 0, which would refuse everything: give 1 or more, or leave it out",
        );
        return None;
    }
    value
}

fn outlier(spec: &Outlier, findings: &mut Findings) -> model::Outlier {
    let consecutive_failures = spec.consecutive_failures.unwrap_or(DEFAULT_FAILURES);
    if consecutive_failures == 0 {
        findings.invalid("spec.outlier.consecutiveFailures", "is 0: give 1 or more");
    }
    let max_ejected_percent = spec.max_ejected_percent.unwrap_or(DEFAULT_EJECTED_PERCENT);
    if max_ejected_percent > 100 {
        findings.invalid("spec.outlier.maxEjectedPercent", "is over 100");
    }
    model::Outlier {
        consecutive_failures,
        base_ejection: spec.base_ejection.map_or(DEFAULT_EJECTION, |d| d.0),
        max_ejected_percent,
    }
}
