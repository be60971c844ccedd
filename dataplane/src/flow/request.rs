//! Requests that the node's Envoy has judged, among what happens to connections.

use std::sync::Arc;

use super::namer::Decider;
use super::{Clock, Event, NamedEvent, Namer, Names};

/// A request, as Envoy saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Such as `GET`.
    pub method: String,
    /// `Host`, or `:authority`.
    pub authority: String,
    /// Without its query.
    pub path: String,
    /// Status code of the answer.
    pub status: u16,
}

/// Envoy's judgement about a request.
#[derive(Clone, Debug)]
pub struct JudgedRequest {
    /// What became of it, as of a connection.
    pub event: Event,
    /// "namespace/name" of the AuthorizationPolicy and its rule that decided; `None`: no rule matched.
    pub rule: Option<(String, String)>,
    /// What was asked.
    pub request: Request,
}

impl JudgedRequest {
    /// With names. `isolating`: the policy that asks for a match.
    pub(super) fn named(
        self,
        isolating: Option<String>,
        namer: &mut Namer,
        names: &dyn Names,
        clock: &Clock,
    ) -> NamedEvent {
        let decider = match self.rule {
            Some((policy, rule)) => Decider {
                policy: format!("AuthorizationPolicy {policy}"),
                rule,
            },
            None => Decider {
                policy: isolating.unwrap_or_default(),
                rule: String::new(),
            },
        };
        NamedEvent {
            decider: Arc::new(decider),
            request: Some(Arc::new(self.request)),
            ..namer.name(self.event, names, clock)
        }
    }
}
