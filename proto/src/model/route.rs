//! Where the requests of an HTTP service go.

use std::time::Duration;

use super::policy::StringMatch;

/// The routes of one service port, the first that matches a request decides. None matches: 404.
///
/// Wire form: `envoy.config.route.v3.RouteConfiguration`. Only the node's Envoy takes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteTable {
    /// Resource name: that of the service port's listener.
    pub name: String,
    /// In the order in which they are asked.
    pub routes: Vec<Route>,
}

/// What is done with some requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// What the author wrote it as: `HTTPRoute shop/web rules[0].matches[1]`.
    pub name: String,
    /// Which requests.
    pub matching: RequestMatch,
    /// What becomes of them.
    pub action: RouteAction,
    /// Of the request, before it is sent on.
    pub request_headers: HeaderChanges,
    /// Of the response.
    pub response_headers: HeaderChanges,
}

/// All of it has to hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestMatch {
    /// Without the query.
    pub path: PathMatch,
    /// `None`: any.
    pub method: Option<String>,
    /// Header names and what their values have to be.
    pub headers: Vec<(String, StringMatch)>,
    /// Query parameters, likewise.
    pub query: Vec<(String, StringMatch)>,
}

/// A condition on a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathMatch {
    /// The same.
    Exact(String),
    /// The same, or below it: `/a` holds for `/a/b` and not for `/ab`. `/`: all.
    Prefix(String),
    /// The whole path matches this regular expression (RE2 syntax).
    Regex(String),
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RouteAction {
    /// It goes to a backend.
    Forward(Box<Forward>),
    /// The client is told to ask elsewhere.
    Redirect(Redirect),
    /// It is answered with this status.
    Respond(u16),
}

/// Where to send a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Forward {
    /// Clusters, by weight. At least one has a weight.
    pub targets: Vec<Target>,
    /// Another `Host`.
    pub host: Option<String>,
    /// Another path.
    pub path: Option<PathChange>,
    /// Clusters that get a copy whose answer is thrown away.
    pub mirrors: Vec<Mirror>,
    /// From the request's end to the response's. `None`: no limit.
    pub timeout: Option<Duration>,
    /// Of each attempt.
    pub attempt_timeout: Option<Duration>,
    /// When to try again.
    pub retry: Option<Retry>,
}

/// A cluster that gets a share of the requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Cluster name. `None`: it cannot be resolved, and its share is answered with 500.
    pub cluster: Option<String>,
    /// Of the sum of all weights.
    pub weight: u32,
    /// Of requests to it.
    pub request_headers: HeaderChanges,
    /// Of its responses.
    pub response_headers: HeaderChanges,
}

/// What happens to a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathChange {
    /// All of it.
    Full(String),
    /// The prefix that matched.
    Prefix {
        /// What matched.
        matched: String,
        /// What comes in its place.
        replacement: String,
    },
}

/// A cluster that gets copies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mirror {
    /// Cluster name.
    pub cluster: String,
    /// Of so many requests in a million.
    pub millionths: u32,
}

/// When to try again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Retry {
    /// Status codes after which another attempt is made; besides, failed connections.
    pub codes: Vec<u16>,
    /// Attempts after the first.
    pub attempts: u32,
    /// Before the second attempt. `None`: Envoy's own.
    pub backoff: Option<Duration>,
}

/// Where the client is told to go. What is `None` stays.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Redirect {
    /// "http" or "https".
    pub scheme: Option<String>,
    /// Host name.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// Path.
    pub path: Option<PathChange>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// Changes of headers: removals first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct HeaderChanges {
    /// In place of all of that name.
    pub set: Vec<(String, String)>,
    /// Besides those of that name.
    pub add: Vec<(String, String)>,
    /// Names.
    pub remove: Vec<String>,
}
