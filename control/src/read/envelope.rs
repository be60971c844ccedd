//! What every manifest has: `apiVersion`, `kind`, `metadata.name`, `metadata.namespace`.

use std::fmt;

use serde_json::Value;

use super::names::{check_label, check_subdomain, shown};
use crate::object::{Kind, ObjectName};

/// Bytes of a made-up name.
const MAX_STAND_IN: usize = 200;

/// A manifest's outside, borrowed from it.
#[derive(Debug)]
pub(super) struct Envelope<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    name: &'a str,
    /// Why `name` is not what stands there.
    name_error: Option<&'static str>,
    namespace: Option<&'a str>,
}

/// Why a document is no manifest.
#[derive(Debug)]
pub(super) struct EnvelopeError {
    pub(super) object: String,
    pub(super) field: String,
    pub(super) message: String,
}

impl<'a> Envelope<'a> {
    /// `None` for an empty document.
    pub(super) fn open(value: &'a Value) -> Result<Option<Self>, EnvelopeError> {
        if value.is_null() {
            return Ok(None);
        }
        let mut envelope = Envelope {
            api_version: "",
            kind: "",
            name: "",
            name_error: None,
            namespace: None,
        };
        let fail = |envelope: &Envelope, field: &str, message: &str| EnvelopeError {
            object: envelope.to_string(),
            field: field.to_owned(),
            message: message.to_owned(),
        };
        if !value.is_object() {
            return Err(fail(
                &envelope,
                "",
                "is not a Kubernetes object: a document must be a mapping with apiVersion, kind and metadata",
            ));
        }
        let metadata = value.get("metadata");
        let text = |parent: Option<&'a Value>, field| match parent.and_then(|p| p.get(field)) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(s)) => Ok(s.as_str()),
            Some(_) => Err("is not a string: put it in quotes"),
        };
        // Name and namespace first, so that the other errors can tell them.
        let (name, namespace) = (text(metadata, "name"), text(metadata, "namespace"));
        envelope.name = name.unwrap_or_default();
        envelope.name_error = name.err();
        envelope.namespace = namespace.ok().filter(|n| !n.is_empty());
        envelope.kind = text(Some(value), "kind").map_err(|m| fail(&envelope, "kind", m))?;
        envelope.api_version =
            text(Some(value), "apiVersion").map_err(|m| fail(&envelope, "apiVersion", m))?;
        namespace.map_err(|m| fail(&envelope, "metadata.namespace", m))?;
        for (field, given) in [
            ("kind", envelope.kind),
            ("apiVersion", envelope.api_version),
        ] {
            if given.is_empty() {
                return Err(fail(
                    &envelope,
                    field,
                    "is missing: every manifest needs apiVersion and kind",
                ));
            }
        }
        Ok(Some(envelope))
    }

    /// The object's name, checked by Kubernetes' rules.
    pub(super) fn object_name(&self, kind: Kind) -> Result<ObjectName, EnvelopeError> {
        let fail = |field: &str, message: String| EnvelopeError {
            object: self.to_string(),
            field: field.to_owned(),
            message,
        };
        if let Some(message) = self.name_error {
            return Err(fail("metadata.name", message.to_owned()));
        }
        if self.name.is_empty() {
            return Err(fail(
                "metadata.name",
                "is missing: give the object a name".to_owned(),
            ));
        }
        match kind {
            Kind::Service | Kind::Namespace => check_label(self.name),
            Kind::Pod
            | Kind::Node
            | Kind::EndpointSlice
            | Kind::TrafficPolicy
            | Kind::HTTPRoute
            | Kind::GRPCRoute
            | Kind::NetworkPolicy
            | Kind::ClusterNetworkPolicy
            | Kind::AuthorizationPolicy
            | Kind::PeerAuthentication => check_subdomain(self.name),
        }
        .map_err(|m| fail("metadata.name", m))?;
        if !kind.is_namespaced() {
            return Ok(ObjectName::new("", self.name));
        }
        let namespace = self.namespace.unwrap_or("default");
        check_label(namespace).map_err(|m| fail("metadata.namespace", m))?;
        Ok(ObjectName::new(namespace, self.name))
    }

    /// What to call a policy whose name Kubernetes would not take; `None` for other kinds, and for a namespace that cannot be.
    pub(super) fn stand_in_name(&self, kind: Kind, origin: &str) -> Option<ObjectName> {
        let namespace = match kind.is_namespaced() {
            true => self.namespace.unwrap_or("default"),
            false => "",
        };
        let possible = !kind.is_namespaced() || check_label(namespace).is_ok();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        // With the place, since others may be called the same.
        let name = format!("{}-{origin}", self.name);
        let name: String = name.chars().map(plain).collect();
        let end = name.len().saturating_sub(MAX_STAND_IN);
        (kind.is_access() && possible).then(|| ObjectName::new(namespace, &name[end..]))
    }

    fn is_cluster_wide(&self) -> bool {
        Kind::ALL
            .iter()
            .any(|k| k.as_str() == self.kind && !k.is_namespaced())
    }
}

/// "Service shop/cart"; what is missing or no text is left out, and what is too long is cut.
impl fmt::Display for Envelope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind.is_empty() {
            return Ok(());
        }
        plain(f, self.kind)?;
        if self.name.is_empty() {
            return Ok(());
        }
        f.write_str(" ")?;
        if !self.is_cluster_wide() {
            plain(f, self.namespace.unwrap_or("default"))?;
            f.write_str("/")?;
        }
        plain(f, self.name)
    }
}

fn plain(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let tame = text.len() <= 253 && text.chars().all(|c| c.is_ascii_graphic());
    if tame {
        f.write_str(text)
    } else {
        f.write_str(&shown(text))
    }
}
