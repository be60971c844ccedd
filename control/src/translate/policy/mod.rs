//! Objects that say who may talk to whom, as policies.

mod authorization_policy;
mod cluster_network_policy;
mod network_policy;
mod peer;

use weft_proto::model::policy::{ObjectRef as Origin, Policy};

use crate::model::Model;
use crate::object::{AccessRules, ObjectRef};

/// The policies that follow from an object; none when it is not there. `root_namespace`: Istio's, whose policies are for all.
#[must_use]
pub fn access(model: &Model, reference: &ObjectRef, root_namespace: &str) -> Vec<Policy> {
    let Some(policy) = model.access(reference) else {
        return Vec::new();
    };
    let author = Author {
        model,
        reference,
        root_namespace,
    };
    let mut policies = match &policy.says {
        AccessRules::Network(says) => network_policy::policies(&author, says),
        AccessRules::Cluster(says) => cluster_network_policy::policies(&author, says),
        AccessRules::Mesh(says) => vec![authorization_policy::policy(&author, says)],
    };
    for one in &mut policies {
        // Istio's AUDIT stays what it is.
        one.mode = one.mode.max(policy.mode);
    }
    policies
}

/// The object that is translated, and where it stands.
struct Author<'a> {
    model: &'a Model,
    reference: &'a ObjectRef,
    root_namespace: &'a str,
}

impl Author<'_> {
    fn namespace(&self) -> &str {
        &self.reference.name.namespace
    }

    fn origin(&self) -> Origin {
        Origin {
            kind: self.reference.kind.as_str().to_owned(),
            namespace: self.namespace().to_owned(),
            name: self.reference.name.name.to_string(),
        }
    }

    /// `networkpolicy/shop/web#ingress`. Policies are asked in the order of these, which has to be that of the objects: "#" comes
    /// before all that can stand in their names, so that `a` stays before `a-b`.
    fn resource(&self, part: &str) -> String {
        let kind = self.reference.kind.as_str().to_ascii_lowercase();
        format!("{kind}/{}#{part}", self.reference.name)
    }
}
