//! One look at who talks to whom.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tonic::Status;
use weft_proto::wire::admin::v1 as wire;
use weft_proto::wire::admin::v1::edge_item::Item;

use super::AdminService;
use super::flows::{BATCHES, read};
use super::service::stopped;
use crate::flow::{Clock, Edge, Namer, Names, opening};

/// Open connections that one look goes over, some 2 µs each.
const MOST_OPEN: usize = 200_000;

/// The head and all edges; with `open` also what is open now.
pub(super) async fn look(
    admin: &AdminService,
    open: bool,
) -> Result<impl Iterator<Item = wire::EdgeItem> + Send + use<>, Status> {
    let workloads = &admin.observed.metrics.workloads;
    // Before what is open: one that ends meanwhile is missing now and there at the next look, instead of counted twice.
    let mut edges = workloads.edges();
    let partial = match open {
        true => add_open(admin, &mut edges).await?,
        false => false,
    };
    let facts = admin.facts.snapshot();
    let lost = facts.counters().into_iter();
    let now = SystemTime::now();
    let head = wire::EdgesHead {
        started_unix_nano: unix_nano(workloads.since()),
        node: facts.node,
        time_unix_nano: unix_nano(now),
        partial,
        events_lost: lost
            .filter(|(name, _)| *name == "events_lost")
            .map(|(_, count)| count)
            .sum(),
    };
    let item = |item| wire::EdgeItem { item: Some(item) };
    let edges = edges.into_iter().map(|edge| Item::Edge(edge.wire()));
    Ok(std::iter::once(Item::Head(head)).chain(edges).map(item))
}

/// True when there are more than were looked at.
async fn add_open(admin: &AdminService, edges: &mut Vec<Edge>) -> Result<bool, Status> {
    let (batches, mut found) = mpsc::channel(BATCHES);
    let source = Arc::clone(&admin.observed.connections);
    tokio::task::spawn_blocking(move || read(source.as_ref(), &batches));
    let mut namer = Namer::default();
    let mut looked_at = 0;
    while let Some(batch) = found.recv().await {
        if looked_at >= MOST_OPEN {
            return Ok(true);
        }
        looked_at += batch.len();
        let clock = Clock::now();
        let named = admin.engine.query(move |engine| {
            namer.renew(engine.generation());
            let events = batch.iter().filter_map(opening);
            let named: Vec<_> = events.map(|e| namer.name(e, engine, &clock)).collect();
            (namer, named)
        });
        let (again, named) = named.await.map_err(stopped)?;
        namer = again;
        let workloads = &admin.observed.metrics.workloads;
        workloads.add_open(&named, edges);
    }
    Ok(false)
}

fn unix_nano(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
