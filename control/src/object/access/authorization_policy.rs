//! `security.istio.io` AuthorizationPolicy.

use weft_proto::model::policy::Match;

use super::LabelSelector;

/// Who may open connections to workloads of one namespace, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationPolicy {
    /// What happens to connections that a rule matches.
    pub action: Action,
    /// Which workloads.
    pub workloads: LabelSelector,
    /// Only of its own namespace, even if that is the root namespace.
    pub own_namespace_only: bool,
    /// Alternatives.
    pub rules: Vec<AuthorizationRule>,
}

/// What happens to connections that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// They pass; with any such policy, others do not.
    Allow,
    /// They are refused.
    Deny,
    /// They are told of.
    Audit,
    /// The provider of this name is asked.
    Custom(String),
}

/// One source, one operation, and all conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationRule {
    /// Where it stands: "rules[0]".
    pub name: String,
    /// Alternatives of clauses that have to hold all. Empty: everybody.
    pub from: Vec<Vec<Clause>>,
    /// Alternatives of clauses that have to hold all. Empty: everything.
    pub to: Vec<Vec<Clause>>,
    /// All have to hold.
    pub when: Vec<Clause>,
}

/// What a clause is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who connects.
    Source,
    /// To what.
    Destination,
}

/// One field with its values, and its opposite with values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// What it is about.
    pub side: Side,
    /// One of these, if there are any,
    pub one_of: Vec<Match>,
    /// and none of these.
    pub none_of: Vec<Match>,
}
