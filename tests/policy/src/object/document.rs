//! Objects with their kind, as they stand in a file.

use serde::{Deserialize, Serialize};

use super::{AuthorizationPolicy, ClusterNetworkPolicy, Namespace, NetworkPolicy, Node, Pod};

/// One document of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// As the kind wants it.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// The rest.
    #[serde(flatten)]
    pub object: Object,
}

/// An object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
#[allow(missing_docs)] // the kinds themselves
pub enum Object {
    Namespace(Namespace),
    Node(Node),
    Pod(Pod),
    NetworkPolicy(NetworkPolicy),
    ClusterNetworkPolicy(ClusterNetworkPolicy),
    AuthorizationPolicy(AuthorizationPolicy),
}

impl Object {
    /// With the `apiVersion` of its kind.
    #[must_use]
    pub fn document(self) -> Document {
        let api_version = match self {
            Self::Namespace(_) | Self::Node(_) | Self::Pod(_) => "v1",
            Self::NetworkPolicy(_) => "networking.k8s.io/v1",
            Self::ClusterNetworkPolicy(_) => "policy.networking.k8s.io/v1alpha2",
            Self::AuthorizationPolicy(_) => "security.istio.io/v1",
        };
        Document {
            api_version: api_version.to_owned(),
            object: self,
        }
    }
}

impl Document {
    /// Kind, namespace and name.
    #[must_use]
    pub fn name(&self) -> (&'static str, &str, &str) {
        let (kind, metadata) = match &self.object {
            Object::Namespace(o) => ("Namespace", &o.metadata),
            Object::Node(o) => ("Node", &o.metadata),
            Object::Pod(o) => ("Pod", &o.metadata),
            Object::NetworkPolicy(o) => ("NetworkPolicy", &o.metadata),
            Object::ClusterNetworkPolicy(o) => ("ClusterNetworkPolicy", &o.metadata),
            Object::AuthorizationPolicy(o) => ("AuthorizationPolicy", &o.metadata),
        };
        (kind, &metadata.namespace, &metadata.name)
    }

    /// Whether it is about the same object.
    #[must_use]
    pub fn is_named_as(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// A text that is no manifest.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

/// The documents of a YAML text.
///
/// # Errors
/// When a field is unknown or has another type.
pub fn parse(yaml: &str) -> Result<Vec<Document>, ParseError> {
    serde_saphyr::from_multiple(yaml).map_err(|error| ParseError(error.to_string()))
}
