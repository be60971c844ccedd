//! HTTPRoute and GRPCRoute, attached to Services.

use std::sync::Arc;
use std::time::Duration;

use weft_proto::model::route::{HeaderChanges, RequestMatch, Retry};

/// Routes for the requests of services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Services of its own namespace whose requests it routes.
    pub parents: Vec<RouteParent>,
    /// In the order in which they are written.
    pub rules: Vec<RouteRule>,
}

/// A service, or one port of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteParent {
    /// "spec.parentRefs[0]".
    pub field: String,
    /// Its name.
    pub service: Arc<str>,
    /// `None`: all ports.
    pub port: Option<u16>,
}

/// What is done with some requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRule {
    /// Alternatives; never empty.
    pub matches: Vec<RequestMatch>,
    /// Of the request.
    pub request_headers: HeaderChanges,
    /// Of the response.
    pub response_headers: HeaderChanges,
    /// What becomes of them.
    pub action: RuleAction,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// It goes to a backend.
    Forward(RuleForward),
    /// The client is told to ask elsewhere.
    Redirect(RuleRedirect),
    /// Part of the rule cannot be done: 500, rather than half of what the author wants.
    Fail,
}

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuleForward {
    /// Alternatives by weight. None: 500.
    pub backends: Vec<RouteBackend>,
    /// Another `Host`.
    pub host: Option<String>,
    /// Another path.
    pub path: Option<PathRewrite>,
    /// Copies, each to so many requests in a million.
    pub mirrors: Vec<(BackendRef, u32)>,
    /// `timeouts.request`.
    pub timeout: Option<Duration>,
    /// `timeouts.backendRequest`.
    pub attempt_timeout: Option<Duration>,
    /// When to try again.
    pub retry: Option<Retry>,
}

/// A share of a rule's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteBackend {
    /// `None`: it cannot be resolved, whatever exists.
    pub target: Option<BackendRef>,
    /// 0 and more.
    pub weight: u32,
    /// Of requests to it.
    pub request_headers: HeaderChanges,
    /// Of its responses.
    pub response_headers: HeaderChanges,
}

/// A service port of the route's own namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendRef {
    /// "spec.rules[0].backendRefs[0]".
    pub field: String,
    /// Name of the service.
    pub service: Arc<str>,
    /// Its port.
    pub port: u16,
}

/// `requestRedirect`. What is `None` stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRedirect {
    /// "http" or "https".
    pub scheme: Option<String>,
    /// Host name.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// Path.
    pub path: Option<PathRewrite>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// What comes in place of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRewrite {
    /// All of it.
    Full(String),
    /// The prefix that the rule matches.
    Prefix(String),
}
