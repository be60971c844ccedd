//! What is needed of an object to say in its status what Weft makes of it.

use serde_json::Value;

use super::Kind;

/// An object whose status Weft writes, as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// In which version it was read.
    pub api_version: String,
    /// `metadata.generation`: which state of `spec` this is about.
    pub generation: i64,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `spec.parentRefs` of routes.
    pub parents: Vec<Value>,
    /// `status`.
    pub status: Value,
}

impl Subject {
    /// Of an object of `kind`; `None` when Weft writes no status of it.
    #[must_use]
    pub fn of(kind: Kind, object: &Value) -> Option<Self> {
        if !kind.has_status() {
            return None;
        }
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let parents = object.pointer("/spec/parentRefs").and_then(Value::as_array);
        Some(Self {
            api_version: text("/apiVersion").unwrap_or_default().to_owned(),
            generation: object
                .pointer("/metadata/generation")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            resource_version: text("/metadata/resourceVersion")
                .unwrap_or_default()
                .to_owned(),
            parents: parents.cloned().unwrap_or_default(),
            status: object.get("status").cloned().unwrap_or_default(),
        })
    }
}
