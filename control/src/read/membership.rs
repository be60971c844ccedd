//! `weft.io/mesh`: who stays out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::findings::Findings;
use super::names::shown;

/// Label, or else annotation, of namespaces, pods and nodes.
pub(crate) const MESH: &str = "weft.io/mesh";

/// What an object says of itself; `None`: nothing that is understood, which takes nobody out.
pub(super) fn read(metadata: &ObjectMeta, findings: &mut Findings) -> Option<bool> {
    let labels = ("labels", metadata.labels.as_ref());
    let annotations = ("annotations", metadata.annotations.as_ref());
    let (field, text) = [labels, annotations]
        .into_iter()
        .find_map(|(field, map)| Some((field, map?.get(MESH)?)))?;
    match text.as_str() {
        "enabled" => Some(true),
        "disabled" => Some(false),
        _ => {
            findings.unsupported(
                format!("metadata.{field}[{MESH}]"),
                format!(
                    "{} is neither \"enabled\" nor \"disabled\"; it changes nothing",
                    shown(text)
                ),
            );
            None
        }
    }
}
