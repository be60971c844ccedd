//! `security.istio.io/v1` AuthorizationPolicy.

use serde::{Deserialize, Serialize};

use super::{Labels, Metadata};

/// AuthorizationPolicy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationPolicy {
    /// `metadata`.
    pub metadata: Metadata,
    /// `spec`.
    #[serde(default)]
    pub spec: AuthorizationPolicySpec,
}

/// `AuthorizationPolicy` of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorizationPolicySpec {
    /// Absent: all workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<WorkloadSelector>,
    /// Absent: ALLOW.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// Of CUSTOM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Alternatives. Absent or empty: never matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<AuthorizationRule>>,
}

/// `WorkloadSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkloadSelector {
    /// All have to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<Labels>,
}

/// `AuthorizationPolicy.Action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Action {
    /// What matches none is refused.
    Allow,
    /// What matches is refused.
    Deny,
    /// Nothing is refused.
    Audit,
    /// A server is asked.
    Custom,
}

/// `ExtensionProvider`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// Named in the mesh's configuration.
    pub name: String,
}

/// `Rule`: one of `from`, one of `to`, and all of `when`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorizationRule {
    /// Absent or empty: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<From>>,
    /// Absent or empty: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<To>>,
    /// Absent or empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Vec<Condition>>,
}

/// `Rule.From`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    /// Who.
    pub source: Source,
}

/// `Rule.To`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct To {
    /// What.
    pub operation: Operation,
}

/// `Source`: all of its fields; of a list, one; of a list that begins with `not`, none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[allow(missing_docs)] // as the API has them
pub struct Source {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub principals: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_principals: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_service_accounts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_blocks: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ip_blocks: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request_principals: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_request_principals: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remote_ip_blocks: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_remote_ip_blocks: Vec<String>,
}

/// `Operation`: as [`Source`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[allow(missing_docs)] // as the API has them
pub struct Operation {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ports: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_hosts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_methods: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_paths: Vec<String>,
}

/// `Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    /// An attribute of Istio's.
    pub key: String,
    /// One of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// None of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_values: Vec<String>,
}
