//! Objects that say who may talk to whom.
//!
//! They fail closed. A rule that cannot be used lets nothing through, and refuses everything if refusing is what it is for. When
//! the outside of an object cannot be read (a field of `spec` that is not known or does not fit), whatever of it lets traffic
//! through is left out, and what it selects stays refused. When it is the selector that is bad, it selects all that it could have.

mod authorization_policy;
mod clause;
mod cluster_network_policy;
mod label_selector;
mod network_policy;
mod part;
pub(super) mod peer_authentication;
mod port;
mod request;
#[cfg(test)]
mod tests;

use serde_json::Value;
use weft_proto::model::policy::Mode;

use super::findings::Findings;
use super::names::shown;
use crate::object::{AccessPolicy, AccessRules, Kind, ObjectRef};

const MODE: &str = "weft.io/mode";

/// The policy in `value`, of which only what refuses is taken if something has been found already; `None` when it is of no concern
/// to any workload.
pub(super) fn read(
    reference: &ObjectRef,
    value: &Value,
    findings: &mut Findings,
) -> Option<AccessPolicy> {
    // A misspelt "spec" must not read as an empty one.
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    let shape = part::only(value, &known, "", findings) && findings.is_sound();
    let spec = value.get("spec").unwrap_or(&Value::Null);
    let says = match reference.kind {
        Kind::NetworkPolicy => AccessRules::Network(network_policy::read(spec, shape, findings)),
        Kind::ClusterNetworkPolicy => {
            AccessRules::Cluster(cluster_network_policy::read(spec, shape, findings))
        }
        _ => AccessRules::Mesh(authorization_policy::read(
            spec,
            shape,
            &reference.name.namespace,
            findings,
        )?),
    };
    Some(AccessPolicy {
        mode: mode(value, findings),
        says,
    })
}

fn mode(value: &Value, findings: &mut Findings) -> Mode {
    let annotations = value.get("metadata").and_then(|m| m.get("annotations"));
    match annotations.and_then(|a| a.get(MODE)) {
        None => Mode::Enforce,
        Some(Value::String(text)) if text == "Enforce" => Mode::Enforce,
        Some(Value::String(text)) if text == "Audit" => Mode::Audit,
        Some(other) => {
            findings.unsupported(
                format!("metadata.annotations[{MODE}]"),
                format!(
                    "{} is not a mode: use Enforce or Audit; Enforce is used",
                    shown(other.as_str().unwrap_or("this"))
                ),
            );
            Mode::Enforce
        }
    }
}
