//! Which kinds Weft uses, which it knows but does not enforce, and which are none of its business.

use weft_proto::model::Severity;

use super::envelope::Envelope;
use super::names::shown;
use crate::object::Kind;

/// What a kind is to Weft.
#[derive(Debug)]
pub(super) enum Meaning {
    /// Read it.
    Used(Kind),
    /// Read it as it would be in a version that Weft knows, though it is of another; the message says so.
    Other(Kind, String),
    /// Read what is in it.
    List,
    /// Field, message and severity of the problem that it is.
    Problem(&'static str, String, Severity),
}

/// Kinds that say who may talk to whom or where requests go. To pass over one in silence would be dangerous.
const NOT_ENFORCED: [(&str, &str); 2] = [
    ("policy.networking.k8s.io", "AdminNetworkPolicy"),
    ("policy.networking.k8s.io", "BaselineAdminNetworkPolicy"),
];

pub(super) fn meaning(envelope: &Envelope) -> Meaning {
    let (group, _) = envelope
        .api_version
        .split_once('/')
        .unwrap_or(("", envelope.api_version));
    if let Some(kind) = Kind::ALL.into_iter().find(|k| k.as_str() == envelope.kind) {
        return used(kind, envelope.api_version);
    }
    if envelope.kind.ends_with("List") {
        return Meaning::List;
    }
    if let Some((expected, kind)) = NOT_ENFORCED.iter().find(|(_, k)| *k == envelope.kind) {
        return not_enforced(expected, kind, group);
    }
    Meaning::Problem(
        "kind",
        format!("{} is not used by Weft", shown(envelope.kind)),
        Severity::Warning,
    )
}

fn used(kind: Kind, api_version: &str) -> Meaning {
    if kind.api_versions().contains(&api_version) {
        return Meaning::Used(kind);
    }
    let message = format!(
        "{} is not read for kind {}: use {}",
        shown(api_version),
        kind.as_str(),
        kind.api_versions().join(" or ")
    );
    if kind.is_access() && is_another_version(kind, api_version) {
        return Meaning::Other(kind, message);
    }
    Meaning::Problem("apiVersion", message, Severity::Error)
}

/// The same API in a version that Weft does not know, rather than somebody else's of that name.
fn is_another_version(kind: Kind, api_version: &str) -> bool {
    let group = |version: &str| version.split_once('/').map(|(group, _)| group.to_owned());
    let given = group(api_version);
    // Where NetworkPolicy once was.
    given.as_deref() == Some("extensions")
        || kind
            .api_versions()
            .iter()
            .any(|known| group(known) == given)
}

fn not_enforced(expected: &str, kind: &str, group: &str) -> Meaning {
    if group != expected {
        return Meaning::Problem(
            "apiVersion",
            format!(
                "{} is not a group that Weft knows {kind} in: it is {expected}",
                shown(group)
            ),
            Severity::Error,
        );
    }
    Meaning::Problem(
        "kind",
        format!(
            "{kind} is NOT ENFORCED by this version of Weft: traffic passes as if this object did not exist"
        ),
        Severity::Error,
    )
}
