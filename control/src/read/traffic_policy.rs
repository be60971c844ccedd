//! `weft.io/v1alpha1` TrafficPolicy.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use weft_proto::model::{LbPolicy, LocalityMode};

use super::duration::GoDuration;
use super::findings::Findings;
use super::names::{check_label, shown};
use crate::object::TrafficPolicy;

const MAX_AFFINITY: Duration = Duration::from_secs(86_400);

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
    limits: Option<Limits>,
    outlier: Option<Outlier>,
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

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Limits {
    max_connections: Option<u32>,
    connections_per_second: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Outlier {
    consecutive_failures: Option<u32>,
    #[serde(rename = "baseEjection")]
    _base_ejection: Option<GoDuration>,
    max_ejected_percent: Option<u32>,
}

pub(super) fn read(manifest: &Manifest, findings: &mut Findings) -> TrafficPolicy {
    let spec = &manifest.spec;
    check_what_is_not_enforced(spec, findings);
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

fn check_what_is_not_enforced(spec: &Spec, findings: &mut Findings) {
    const NOT_ENFORCED: &str = "is read and checked, but this version does not enforce it";
    let timeouts = [
        ("connect", spec.timeouts.connect.is_some()),
        ("idle", spec.timeouts.idle.is_some()),
        ("maxDuration", spec.timeouts.max_duration.is_some()),
    ];
    for (name, _) in timeouts.iter().filter(|(_, given)| *given) {
        findings.warn(format!("spec.timeouts.{name}"), NOT_ENFORCED);
    }
    if let Some(limits) = &spec.limits {
        findings.warn("spec.limits", NOT_ENFORCED);
        let zero = |n: Option<u32>| n == Some(0);
        for (name, bad) in [
            ("maxConnections", zero(limits.max_connections)),
            ("connectionsPerSecond", zero(limits.connections_per_second)),
        ] {
            if bad {
                findings.invalid(
                    format!("spec.limits.{name}"),
                    "is 0, which would refuse everything: give 1 or more, or leave it out",
                );
            }
        }
    }
    if let Some(outlier) = &spec.outlier {
        findings.warn("spec.outlier", NOT_ENFORCED);
        if outlier.consecutive_failures == Some(0) {
            findings.invalid("spec.outlier.consecutiveFailures", "is 0: give 1 or more");
        }
        if outlier.max_ejected_percent.is_some_and(|p| p > 100) {
            findings.invalid("spec.outlier.maxEjectedPercent", "is over 100");
        }
    }
}
