//! `security.istio.io` PeerAuthentication.
//!
//! <https://istio.io/latest/docs/reference/config/security/peer_authentication/>
//!
//! Fails closed: what an object selects that cannot be understood is STRICT, at all ports.

use std::collections::BTreeMap;

use serde_json::Value;
use weft_proto::model::MtlsMode;

use super::{label_selector, part};
use crate::object::{LabelSelector, PeerAuthentication};
use crate::read::findings::Findings;
use crate::read::names::shown;

/// What `value`, the whole manifest, says. If something has been found already it is not understood.
pub(in crate::read) fn read(value: &Value, findings: &mut Findings) -> PeerAuthentication {
    let intact = findings.is_sound();
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    let intact = part::only(value, &known, "", findings) && intact;
    let spec = value.get("spec").unwrap_or(&Value::Null);
    let known = ["selector", "mtls", "portLevelMtls"];
    let intact = (spec.is_null() || part::only(spec, &known, "spec", findings)) && intact;
    let workloads = selector(spec, findings);
    let mode = match part::field(spec, "mtls") {
        None => Ok(None),
        Some(mtls) => mode(mtls, "spec.mtls", findings),
    };
    let ports = ports(spec, findings);
    let selects_some = workloads.as_ref().is_some_and(|s| !s.is_everything());
    if part::field(spec, "portLevelMtls").is_some() && !selects_some {
        findings.invalid(
            "spec.portLevelMtls",
            "needs a selector: ports are those of workloads",
        );
    }
    match (intact && findings.is_sound(), workloads, mode, ports) {
        (true, Some(workloads), Ok(mode), Ok(ports)) => PeerAuthentication {
            workloads,
            mode,
            ports,
        },
        (_, workloads, ..) => PeerAuthentication {
            workloads: workloads.unwrap_or_default(),
            mode: Some(MtlsMode::Strict),
            ports: BTreeMap::new(),
        },
    }
}

/// What is bad has been reported.
struct Reported;

/// The workloads; `None` when it is bad.
fn selector(spec: &Value, findings: &mut Findings) -> Option<LabelSelector> {
    let Some(selector) = part::field(spec, "selector") else {
        return Some(LabelSelector::default());
    };
    if !part::only(selector, &["matchLabels"], "spec.selector", findings) {
        return None;
    }
    label_selector::read(selector, "spec.selector", findings)
}

fn mode(mtls: &Value, path: &str, findings: &mut Findings) -> Result<Option<MtlsMode>, Reported> {
    if !part::only(mtls, &["mode"], path, findings) {
        return Err(Reported);
    }
    let Some(mode) = part::field(mtls, "mode") else {
        return Ok(None);
    };
    match mode.as_str() {
        Some("UNSET") => Ok(None),
        Some("STRICT") => Ok(Some(MtlsMode::Strict)),
        Some("PERMISSIVE") => Ok(Some(MtlsMode::Permissive)),
        Some("DISABLE") => Ok(Some(MtlsMode::Disable)),
        other => {
            findings.invalid(
                format!("{path}.mode"),
                format!(
                    "{} is not a mode: use STRICT, PERMISSIVE, DISABLE or UNSET; STRICT is used",
                    shown(other.unwrap_or("this"))
                ),
            );
            Err(Reported)
        }
    }
}

fn ports(
    spec: &Value,
    findings: &mut Findings,
) -> Result<BTreeMap<u16, Option<MtlsMode>>, Reported> {
    const PATH: &str = "spec.portLevelMtls";
    let map = match part::field(spec, "portLevelMtls") {
        None => return Ok(BTreeMap::new()),
        Some(Value::Object(map)) => map,
        Some(_) => {
            findings.invalid(PATH, "is not a mapping of ports");
            return Err(Reported);
        }
    };
    let mut all = Ok(BTreeMap::new());
    for (text, mtls) in map {
        let path = format!("{PATH}[{text}]");
        let port = text.parse::<u16>().ok().filter(|port| *port != 0);
        if port.is_none() {
            findings.invalid(&path, "is not a port: give 1 to 65535");
        }
        match (port, mode(mtls, &path, findings), &mut all) {
            (Some(port), Ok(mode), Ok(ports)) => {
                ports.insert(port, mode);
            }
            (_, _, all) => *all = Err(Reported),
        }
    }
    all
}
