//! What the page asks for.

use std::sync::PoisonError;
use std::time::Duration;

use anyhow::Result;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use weft_dataplane::admin;
use weft_proto::wire::admin::v1 as wire;
use weft_proto::wire::admin::v1::flow_item::Item;
use weft_proto::wire::flow::v1::Flow;

use super::Shared;
use super::map::Map;
use crate::watch::{AgentState, Watch};

/// The longest that is looked back: an hour.
const LONGEST: u64 = 3_600;
/// Flows that are shown of an edge.
const FLOWS: u32 = 100;
/// An agent that takes longer is left out.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Why there is no answer.
type Refusal = (StatusCode, String);

impl Shared {
    fn look<T>(&self, at: impl FnOnce(&Watch) -> T) -> T {
        at(&self.watch.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Window {
    /// Seconds.
    window: u64,
}

/// Who talks to whom.
pub(super) async fn map(State(shared): State<Shared>, Query(query): Query<Window>) -> Json<Map> {
    let window = Duration::from_secs(query.window.clamp(1, LONGEST));
    let (between, states) = shared.look(|watch| (watch.history().last(window), watch.states()));
    Json(Map::new(&between, states))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    /// As in `weft flows`.
    from: String,
    to: String,
    verdict: String,
}

/// The newest flows between two workloads, newest first.
pub(super) async fn flows(
    State(shared): State<Shared>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Vec<Flow>>, Refusal> {
    let states = shared.look(Watch::states);
    let request = wire::ListFlowsRequest {
        filter: Some(wire::FlowFilter {
            from: wanted.from,
            to: wanted.to,
            verdict: wanted.verdict,
        }),
        last: Some(FLOWS),
        ..Default::default()
    };
    let asking = live(&states).map(|agent| timeout(ANSWER_WITHIN, newest(agent, request.clone())));
    let mut flows = Vec::new();
    let mut refusal = None;
    for answer in futures::future::join_all(asking).await {
        match answer {
            Ok(Ok(found)) => flows.extend(found),
            Ok(Err(error)) => refusal = Some(format!("{error:#}")),
            Err(_) => refusal = Some("an agent does not answer".to_owned()),
        }
    }
    match refusal {
        Some(refusal) if flows.is_empty() => Err((StatusCode::BAD_GATEWAY, refusal)),
        _ => {
            flows.sort_by_key(|flow| std::cmp::Reverse(flow.time_unix_nano));
            flows.truncate(FLOWS as usize);
            Ok(Json(flows))
        }
    }
}

fn live(states: &[AgentState]) -> impl Iterator<Item = &AgentState> {
    states.iter().filter(|state| state.error.is_none())
}

async fn newest(agent: &AgentState, request: wire::ListFlowsRequest) -> Result<Vec<Flow>> {
    let mut client = admin::connect(&agent.path).await?;
    let mut items = client.list_flows(request).await?.into_inner();
    let mut flows = Vec::new();
    while let Some(item) = items.message().await? {
        if let Some(Item::Flow(flow)) = item.item {
            flows.push(flow);
        }
    }
    Ok(flows)
}

/// An object that says who may talk to whom, as one node has it.
#[derive(Serialize)]
pub(super) struct Policy {
    node: String,
    #[serde(flatten)]
    policy: wire::Policy,
}

#[derive(Debug, Deserialize)]
pub(super) struct Object {
    /// "Kind namespace/name", as flows have it.
    object: String,
}

/// What nodes know of one policy.
pub(super) async fn policies(
    State(shared): State<Shared>,
    Query(Object { object }): Query<Object>,
) -> Json<Vec<Policy>> {
    let states = shared.look(Watch::states);
    let asking = live(&states).map(|agent| timeout(ANSWER_WITHIN, objects(agent, &object)));
    let answers = futures::future::join_all(asking).await;
    let found = answers.into_iter().flatten().flatten().flatten();
    Json(found.collect())
}

async fn objects(agent: &AgentState, object: &str) -> Result<Vec<Policy>> {
    let mut client = admin::connect(&agent.path).await?;
    let listed = client.list_policies(wire::ListRequest {}).await?;
    let mut rows = listed.into_inner();
    let mut found = Vec::new();
    while let Some(policy) = rows.message().await? {
        if named(&policy) == object {
            let node = agent.node.clone();
            found.push(Policy { node, policy });
        }
    }
    Ok(found)
}

fn named(policy: &wire::Policy) -> String {
    let wire::Policy {
        kind,
        namespace,
        name,
        ..
    } = policy;
    match namespace.as_str() {
        "" => format!("{kind} {name}"),
        _ => format!("{kind} {namespace}/{name}"),
    }
}
