//! What stands between PeerAuthentications and their effect.

use weft_proto::model::{MtlsMode, Problem, Severity};

use crate::engine::Settings;
use crate::model::Model;
use crate::object::{Kind, ObjectName, ObjectRef};

/// What is to be said about the PeerAuthentication `name`, which need not exist.
#[must_use]
pub fn problems(model: &Model, name: &ObjectName, settings: &Settings) -> Vec<Problem> {
    let Some(entry) = model.peer_authentication(name) else {
        return Vec::new();
    };
    let object = &entry.spec;
    let mut found = Vec::new();
    let mut say = |field: &str, message: &str, severity| {
        let reference = ObjectRef {
            kind: Kind::PeerAuthentication,
            name: name.clone(),
        };
        found.push(Problem {
            origin: entry.origin.to_string(),
            object: reference.to_string(),
            field: field.to_owned(),
            message: message.to_owned(),
            severity,
        });
    };
    let strict = Some(MtlsMode::Strict);
    let requires = object.mode == strict || object.ports.values().any(|mode| *mode == strict);
    if requires && !settings.tunnels {
        say(
            "spec",
            "STRICT is NOT ENFORCED: this control plane gives nodes no certificates, so plain text passes as if this object did not exist",
            Severity::Error,
        );
    }
    if *name.namespace == *settings.root_namespace && !object.workloads.is_everything() {
        say(
            "spec.selector",
            "selects nothing in the root namespace, whose objects are for the whole mesh: remove the selector, or move the object",
            Severity::Warning,
        );
    }
    found
}
