//! The export against collectors that are slow, broken or not there: each span is counted once, wherever it ends.

mod strangers;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Arrival, ExportConfig, Gather, Outcome, Ratio, Sampling, export};
use crate::flow::fake::{CART, Fake, WEB};
use crate::flow::tests::event;
use crate::flow::{Clock, Direction, Event, EventKind, FlowLog, Namer, Reason, protocol};
use crate::metrics::{Metrics, Snapshot};

/// A collector over HTTP.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    metrics: Arc<Mutex<Vec<Metric>>>,
    tokens: Arc<Mutex<Vec<String>>>,
    /// Requests that are refused before one is taken.
    refuse: Arc<AtomicU32>,
    /// As it refuses them.
    status: Arc<AtomicU32>,
    /// Of each batch that it takes, so many spans are said not to be.
    reject: Arc<AtomicU64>,
}

impl Collector {
    async fn start(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let app = Router::new()
            .route("/v1/traces", post(take))
            .route("/v1/metrics", post(take_metrics))
            .with_state(self);
        tokio::spawn(async move { axum::serve(listener, app).await });
        address
    }

    fn spans(&self) -> Vec<Span> {
        self.spans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn take(State(collector): State<Collector>, headers: HeaderMap, body: Bytes) -> Response {
    let less = |n: u32| n.checked_sub(1);
    let ordering = Ordering::Relaxed;
    if collector
        .refuse
        .fetch_update(ordering, ordering, less)
        .is_ok()
    {
        let status = u16::try_from(collector.status.load(ordering)).expect("a status");
        let status = StatusCode::from_u16(status).expect("a status");
        return (status, [("retry-after", "0")]).into_response();
    }
    let request = ExportTraceServiceRequest::decode(body).expect("OTLP");
    let scopes = request
        .resource_spans
        .into_iter()
        .flat_map(|r| r.scope_spans);
    let mut kept = collector.spans.lock().expect("no panic");
    kept.extend(scopes.flat_map(|s| s.spans));
    let token = headers.get("authorization").map(|v| v.to_str());
    let mut tokens = collector.tokens.lock().expect("no panic");
    tokens.extend(token.and_then(Result::ok).map(str::to_owned));
    let rejected = collector.reject.load(ordering);
    let answer = ExportTraceServiceResponse {
        partial_success: (rejected > 0).then(|| ExportTracePartialSuccess {
            rejected_spans: i64::try_from(rejected).expect("few"),
            error_message: "too old".to_owned(),
        }),
    };
    answer.encode_to_vec().into_response()
}

async fn take_metrics(State(collector): State<Collector>, body: Bytes) -> Response {
    let request = ExportMetricsServiceRequest::decode(body).expect("OTLP");
    let scopes = request
        .resource_metrics
        .into_iter()
        .flat_map(|r| r.scope_metrics);
    let mut kept = collector.metrics.lock().expect("no panic");
    kept.extend(scopes.flat_map(|s| s.metrics));
    Vec::new().into_response()
}

/// The metrics of an agent that has nothing else to show.
#[derive(Clone)]
struct Looks(Arc<Metrics>);

impl Gather for Looks {
    async fn gather(&self) -> Option<Vec<MetricFamily>> {
        self.0.gather(&Snapshot::default()).ok()
    }

    async fn reached_at(&self, services: &[String]) -> Vec<(usize, Arrival)> {
        let cart = services.iter().position(|name| name == "shop/cart");
        let arrival = ((CART, 8080).into(), protocol::TCP);
        cart.map(|place| (place, arrival)).into_iter().collect()
    }
}

/// An export that runs.
struct Site {
    log: FlowLog,
    metrics: Arc<Metrics>,
    drain: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), String>>,
}

impl Site {
    async fn start(target: &str, sampling: Sampling, bytes_per_second: u64) -> Self {
        let log = FlowLog::new(NonZeroUsize::new(100_000).expect("not zero"));
        let metrics = Arc::new(Metrics::new());
        let drain = CancellationToken::new();
        let config = ExportConfig {
            target: target.parse().expect("an address"),
            headers: vec!["authorization=Bearer t".parse().expect("a header")],
            sampling,
            bytes_per_second,
            metrics_interval: Duration::from_millis(200),
        };
        let exporting = export(
            config,
            // Another than the pods': each flow is of one end only.
            "elsewhere".to_owned(),
            log.clone(),
            mpsc::channel(1).1,
            Arc::clone(&metrics),
            Looks(Arc::clone(&metrics)),
            drain.clone(),
        );
        let task = tokio::spawn(exporting);
        // It follows what comes from now on.
        tokio::time::sleep(Duration::from_millis(50)).await;
        Self {
            log,
            metrics,
            drain,
            task,
        }
    }

    fn tell(&self, events: impl Iterator<Item = Event>) {
        let (mut namer, names, clock) = (Namer::default(), Fake::new(), Clock::fixed(0, 0));
        let named = events.map(|event| namer.name(event, &names, &clock));
        self.log.add(named.collect());
    }

    fn count(&self, outcome: Outcome) -> u64 {
        self.metrics.export.get(outcome)
    }

    async fn until(&self, outcome: Outcome, count: u64) {
        for _ in 0..3_000 {
            if self.count(outcome) >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(self.count(outcome), count, "{outcome:?}");
    }

    async fn stop(self) {
        self.drain.cancel();
        self.task.await.expect("no panic").expect("ends in order");
    }
}

/// Connections that the local pod opened, and that have ended.
fn closed(count: u32) -> impl Iterator<Item = Event> {
    (0..count).map(|isn| Event {
        direction: Some(Direction::Egress),
        isn: isn + 1,
        first_ns: 1,
        ..event(EventKind::Close, Reason::REASON_FIN)
    })
}

fn all() -> Sampling {
    Sampling::new(Ratio::ALL, [], [])
}

#[tokio::test]
async fn over_http_each_arrives_once_in_spite_of_refusals() {
    let collector = Collector::default();
    collector.refuse.store(3, Ordering::Relaxed);
    collector.status.store(503, Ordering::Relaxed);
    let address = collector.clone().start().await;
    let site = Site::start(&format!("http://{address}/v1/traces"), all(), 0).await;
    site.tell(closed(1_500));
    site.until(Outcome::exported, 1_500).await;
    let mut ids: Vec<_> = collector.spans().into_iter().map(|s| s.span_id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 1_500);
    let tokens = collector.tokens.lock().expect("no panic").clone();
    assert!(tokens.len() >= 3 && tokens.iter().all(|t| t == "Bearer t"));
    site.stop().await;
}

#[tokio::test]
async fn what_a_collector_never_takes_is_not_sent_again() {
    let collector = Collector::default();
    collector.refuse.store(1, Ordering::Relaxed);
    collector.status.store(400, Ordering::Relaxed);
    let address = collector.clone().start().await;
    let site = Site::start(&format!("http://{address}/v1/traces"), all(), 0).await;
    site.tell(closed(10));
    site.until(Outcome::failed, 10).await;
    collector.reject.store(2, Ordering::Relaxed);
    site.tell(closed(10));
    site.until(Outcome::exported, 8).await;
    site.until(Outcome::rejected, 2).await;
    site.stop().await;
}

#[tokio::test]
async fn without_a_collector_memory_is_bounded_and_losses_are_counted() {
    // A port at which nobody listens.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let site = Site::start(&format!("http://{address}"), all(), 0).await;
    site.tell(closed(50_000));
    // All have been looked at, however busy the machine is.
    while site.metrics.export.with_spans() < 50_000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let lost = site.count(Outcome::queue_full);
    assert!(
        (50_000 - 8_192 - 512 - 512..50_000).contains(&lost),
        "{lost}"
    );
    assert_eq!(site.count(Outcome::exported), 0);
    let metrics = Arc::clone(&site.metrics);
    site.stop().await;
    let count = |outcome| metrics.export.get(outcome);
    let ended = count(Outcome::queue_full) + count(Outcome::failed);
    assert_eq!(ended, 50_000, "each span ends somewhere");
}

#[tokio::test]
async fn refusals_are_told_whatever_is_left_out() {
    let collector = Collector::default();
    let address = collector.clone().start().await;
    let none = Sampling::new("0".parse().expect("a share"), [], []);
    let site = Site::start(&format!("http://{address}/v1/traces"), none, 0).await;
    site.tell(closed(100));
    site.tell((0..5).map(|time_ns| Event {
        direction: Some(Direction::Ingress),
        time_ns,
        ..event(EventKind::Denied, Reason::REASON_ISOLATED)
    }));
    site.until(Outcome::exported, 5).await;
    site.until(Outcome::sampled_out, 100).await;
    let spans = collector.spans();
    assert!(
        spans
            .iter()
            .all(|s| s.status.as_ref().is_some_and(|s| s.code == 2))
    );
    site.stop().await;
}

#[tokio::test]
async fn a_service_has_its_own_share_by_where_its_connections_arrive() {
    let collector = Collector::default();
    let address = collector.clone().start().await;
    let sampling = Sampling::new(
        "0".parse().expect("a share"),
        ["shop/cart=1".parse().expect("a rule")],
        [],
    );
    let site = Site::start(&format!("http://{address}/v1/traces"), sampling, 0).await;
    site.tell(closed(10));
    site.tell(closed(5).map(|closed| Event {
        destination: (WEB, 8080).into(),
        ..closed
    }));
    site.until(Outcome::exported, 10).await;
    site.until(Outcome::sampled_out, 5).await;
    site.stop().await;
}

#[tokio::test]
async fn a_budget_of_bytes_holds() {
    let collector = Collector::default();
    let address = collector.clone().start().await;
    let site = Site::start(&format!("http://{address}/v1/traces"), all(), 20_000).await;
    site.tell(closed(1_000));
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let (sent, over) = (
        site.count(Outcome::exported),
        site.count(Outcome::over_budget),
    );
    assert_eq!(sent + over, 1_000);
    let bytes: usize = collector.spans().iter().map(Message::encoded_len).sum();
    assert!(sent > 0 && bytes <= 40_000, "{sent} spans of {bytes} bytes");
    site.stop().await;
}

#[tokio::test]
async fn metrics_come_at_each_interval() {
    let collector = Collector::default();
    let address = collector.clone().start().await;
    let site = Site::start(&format!("http://{address}/v1/traces"), all(), 0).await;
    let reconnects = || {
        let kept = collector.metrics.lock().expect("no panic");
        let found = kept.iter().filter(|m| m.name == "weft.control_reconnects");
        found.count()
    };
    for _ in 0..1_000 {
        if reconnects() >= 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(reconnects() >= 2);
    site.stop().await;
}
