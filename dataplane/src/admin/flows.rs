//! Flows, connections, and what would happen to new ones.

use std::sync::Arc;

use futures::stream;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status};
use weft_proto::wire::admin::v1 as wire;
use weft_proto::wire::flow::v1::Flow;

use super::service::{Rows, stopped};
use crate::check::{CheckProgram, Question, check};
use crate::conntrack::{Connection, ConnectionSource, SweepReport, Timeouts, describe};
use crate::engine::worker::EngineHandle;
use crate::flow::{Chunk, Clock, Cursor, Filter, FlowLog, NamedEvent};
use crate::metrics::Metrics;
use crate::tables::MapUsage;

/// Connections named in one visit to the engine.
const CONNECTIONS: usize = 512;
/// Batches of connections on their way to the engine.
pub(super) const BATCHES: usize = 2;

/// What can be seen of connections.
#[derive(Clone)]
pub struct Observed {
    /// What happened to them.
    pub log: FlowLog,
    /// Those that the kernel remembers.
    pub connections: Arc<dyn ConnectionSource>,
    /// What would happen to new ones.
    pub check: Arc<dyn CheckProgram>,
    /// The kernel's latest pass over them.
    pub sweeps: SweepReport,
    /// How long they are remembered.
    pub timeouts: Timeouts,
    /// Connections between workloads, counted.
    pub metrics: Arc<Metrics>,
}

impl Observed {
    /// Use of the tables of connections, as the latest sweep counted it; the kernel's `counters` know who found them full.
    pub(crate) fn usage(&self, counters: &[(&'static str, u64)]) -> [MapUsage; 2] {
        let count = |wanted: &str| counters.iter().find(|(name, _)| *name == wanted);
        let full = |wanted| count(wanted).map_or(0, |(_, count)| *count);
        let (latest, capacity) = (self.sweeps.latest(), self.connections.capacity());
        [
            MapUsage {
                name: "ct",
                entries: latest.answered() as usize,
                capacity: capacity.tracked,
                full: full("conntrack_full"),
            },
            MapUsage {
                name: "nat",
                entries: latest.nat as usize,
                capacity: capacity.nat,
                full: full("nat_full"),
            },
        ]
    }

    pub(super) fn flows(
        &self,
        request: wire::ListFlowsRequest,
    ) -> Result<Response<Rows<wire::FlowItem>>, Status> {
        let filter = filter(request.filter.unwrap_or_default())?;
        let (remembered, cursor) = self.log.follow();
        let last = request.last.map_or(usize::MAX, |last| last as usize);
        let newest = remembered.iter().rev().flat_map(|some| some.iter().rev());
        let newest = newest.filter(|flow| flow.time_unix_nano >= request.since_unix_nano);
        let newest = newest.map(NamedEvent::flow);
        let newest = newest.filter(|flow| filter.wants(flow)).take(last);
        let mut past: Vec<_> = newest.map(|flow| Ok(item(flow))).collect();
        past.reverse();
        let past = stream::iter(past);
        if !request.follow {
            return Ok(Response::new(Box::pin(past)));
        }
        let live = stream::unfold((cursor, filter), |(mut cursor, filter)| async move {
            let items = next_items(&mut cursor, &filter).await;
            Some((stream::iter(items.into_iter().map(Ok)), (cursor, filter)))
        });
        let live = futures::StreamExt::flatten(live);
        Ok(Response::new(Box::pin(past.chain(live))))
    }

    pub(super) fn connections(
        &self,
        request: wire::ListConntrackRequest,
        engine: EngineHandle,
    ) -> Result<Response<Rows<wire::Connection>>, Status> {
        let filter = filter(wire::FlowFilter {
            from: request.from,
            to: request.to,
            verdict: String::new(),
        })?;
        let (batches, found) = mpsc::channel(BATCHES);
        let source = Arc::clone(&self.connections);
        tokio::task::spawn_blocking(move || read(source.as_ref(), &batches));
        let (rows, queue) = mpsc::channel(CONNECTIONS);
        tokio::spawn(name(found, filter, self.timeouts, engine, rows));
        Ok(Response::new(Box::pin(ReceiverStream::new(queue))))
    }

    pub(super) async fn check(
        &self,
        request: wire::CheckRequest,
        engine: &EngineHandle,
    ) -> Result<Response<wire::CheckReply>, Status> {
        let question = Question::try_from(request).map_err(invalid)?;
        let program = Arc::clone(&self.check);
        // On the engine's thread, so that names and tables are of one moment; a question takes the kernel microseconds.
        let answered = engine
            .query(move |engine| check(&question, engine, program.as_ref()))
            .await
            .map_err(stopped)?;
        answered
            .map(Response::new)
            .map_err(|e| Status::failed_precondition(e.to_string()))
    }
}

fn filter(filter: wire::FlowFilter) -> Result<Filter, Status> {
    Filter::try_from(filter).map_err(invalid)
}

fn invalid(error: impl std::error::Error) -> Status {
    Status::invalid_argument(error.to_string())
}

fn item(flow: Flow) -> wire::FlowItem {
    wire::FlowItem {
        item: Some(wire::flow_item::Item::Flow(flow)),
    }
}

async fn next_items(cursor: &mut Cursor, filter: &Filter) -> Vec<wire::FlowItem> {
    let Chunk { lost, flows } = cursor.next().await;
    let lost = (lost > 0).then_some(wire::FlowItem {
        item: Some(wire::flow_item::Item::Lost(wire::Lost { flows: lost })),
    });
    let flows = flows.iter().map(NamedEvent::flow);
    let wanted = flows.filter(|flow| filter.wants(flow)).map(item);
    lost.into_iter().chain(wanted).collect()
}

/// Reads all connections; ends early when nobody wants more.
pub(super) fn read(source: &dyn ConnectionSource, batches: &mpsc::Sender<Vec<Connection>>) {
    let mut batch = Vec::with_capacity(CONNECTIONS);
    source.each(&mut |connection| {
        batch.push(connection);
        batch.len() < CONNECTIONS || batches.blocking_send(std::mem::take(&mut batch)).is_ok()
    });
    if !batch.is_empty() {
        // Nobody wants it: then it is not missed.
        let _ = batches.blocking_send(batch);
    }
}

async fn name(
    mut batches: mpsc::Receiver<Vec<Connection>>,
    filter: Filter,
    timeouts: Timeouts,
    engine: EngineHandle,
    rows: mpsc::Sender<Result<wire::Connection, Status>>,
) {
    while let Some(batch) = batches.recv().await {
        let clock = Clock::now();
        let named = engine
            .query(move |engine| {
                let row = |connection| describe(connection, engine, &clock, &timeouts);
                batch.iter().map(row).collect::<Vec<_>>()
            })
            .await;
        let named = match named {
            Ok(named) => named,
            Err(e) => {
                let _ = rows.send(Err(stopped(e))).await;
                return;
            }
        };
        let wanted = named.into_iter().filter(|row| {
            filter.wants_ends(row.source.as_ref(), row.destination.as_ref(), &row.service)
        });
        for row in wanted {
            if rows.send(Ok(row)).await.is_err() {
                return;
            }
        }
    }
}
