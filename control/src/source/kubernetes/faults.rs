//! What goes wrong between Weft and an API server, in words that say what to do.

use std::time::Duration;

use kube::core::Status;
use kube::runtime::watcher::Error;
use weft_proto::model::{Problem, Severity};

use crate::object::Kind;

/// Waits between attempts grow from this to [`LONGEST_WAIT`].
const SHORTEST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Origin of the problems here, where files have their name.
pub(super) const ORIGIN: &str = "Kubernetes API";

/// What an error means for a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The right for this verb is missing.
    Forbidden(&'static str),
    /// The server does not know the kind.
    NotFound,
    /// What was seen is too old to go on from: list again.
    Expired,
    /// The server does not answer, or not as it should; perhaps later.
    Trouble,
}

impl Fault {
    pub(super) fn of(error: &Error) -> Self {
        let (status, verb) = match error {
            Error::InitialListFailed(kube::Error::Api(status)) => (status, "list"),
            Error::WatchStartFailed(kube::Error::Api(status))
            | Error::WatchFailed(kube::Error::Api(status))
            | Error::WatchError(status) => (status, "watch"),
            _ => return Self::Trouble,
        };
        Self::of_status(status, verb)
    }

    fn of_status(status: &Status, verb: &'static str) -> Self {
        match status.code {
            // 401 is a token that has expired: the client reads the next one by itself.
            403 => Self::Forbidden(verb),
            404 | 405 => Self::NotFound,
            410 => Self::Expired,
            _ => Self::Trouble,
        }
    }
}

/// How long to wait after the n-th failure in a row, from 1. Half of it is chance, so that many who lost one server
/// do not come back at one moment.
pub(super) fn wait(failures: u32) -> Duration {
    let doubled = SHORTEST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(10));
    let longest = doubled.min(LONGEST_WAIT);
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// "httproutes.gateway.networking.k8s.io", as RBAC and kubectl spell it.
pub(super) fn resource(plural: &str, group: &str) -> String {
    if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    }
}

/// A right is missing.
pub(super) fn forbidden(
    verb: &str,
    resource: &str,
    namespace: Option<&str>,
    waits: bool,
) -> Problem {
    let place = match namespace {
        Some(namespace) => format!("in namespace {namespace}"),
        None => "in the whole cluster".to_owned(),
    };
    let consequence = if waits {
        "nothing is served before, since it says who may talk to whom"
    } else {
        "what is known of it stays, and everything else goes on"
    };
    problem(format!(
        "may not {verb} {resource} {place}: {consequence}; give the control plane's service account the verbs get, list and watch on it"
    ))
}

/// A kind is only there in versions that are not ours.
pub(super) fn other_version(kind: Kind, there: &[String]) -> Problem {
    problem(format!(
        "the server has {} only as {}: Weft reads {}; install a CustomResourceDefinition that has it",
        kind.as_str(),
        there.join(", "),
        kind.api_versions().join(" or ")
    ))
}

/// The server is not there, or does not answer as it should.
pub(super) fn unreachable(error: &dyn std::fmt::Display) -> Problem {
    problem(format!(
        "the API server does not answer ({error}): what is known stays in effect until it is back"
    ))
}

fn problem(message: String) -> Problem {
    Problem {
        origin: ORIGIN.to_owned(),
        object: String::new(),
        field: String::new(),
        message,
        severity: Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end_growing() {
        for failures in 1..40 {
            let wait = wait(failures);
            assert!(
                wait >= SHORTEST_WAIT / 2 && wait <= LONGEST_WAIT,
                "{wait:?}"
            );
        }
        assert!(wait(20) >= LONGEST_WAIT / 2);
    }
}
