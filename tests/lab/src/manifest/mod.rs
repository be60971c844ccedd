//! Kubernetes manifests for what a lab holds, and the folder they are put in.

mod endpoint_slice;
mod folder;
mod node;
mod pod;
pub(crate) mod read;
mod service;
mod yaml;

pub use endpoint_slice::{Endpoint, EndpointSliceManifest};
pub use folder::Manifests;
pub use node::NodeManifest;
pub use pod::PodManifest;
pub use service::{ServiceManifest, ServicePort};

use serde_json::json;

/// The text of a Namespace.
pub fn namespace(name: &str) -> String {
    yaml::to_yaml(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
}

/// Joins objects to one text of many documents.
pub fn documents<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> String {
    let mut joined = String::new();
    for text in texts {
        joined.push_str("---\n");
        joined.push_str(text.as_ref());
    }
    joined
}
