//! Requests in numbers, by who asked whom: what the node's Envoy tells of each.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::workloads::{PairLabels, labels};
use super::{Clock, Event, NamedEvent, Namer, Names};
use crate::engine::worker::EngineHandle;
use crate::metrics::Metrics;

/// Messages of Envoy that wait to be counted, each of about a hundred requests.
const QUEUE: usize = 64;
/// From what one node answers at once to what a person gives up on.
const DURATION_SECONDS: [f64; 11] = [
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];

/// A request, and the connection that it would have been without an Envoy.
#[derive(Clone, Copy, Debug)]
pub struct AskedRequest {
    /// From whom to whom.
    pub event: Event,
    /// Of the answer; 0: none came.
    pub status: u16,
    /// From its first byte to the answer's last.
    pub duration: Duration,
}

/// Takes requests to be counted, and waits for nobody.
#[derive(Clone, Debug)]
pub struct RequestCounts {
    queue: mpsc::Sender<Vec<AskedRequest>>,
    metrics: Arc<Metrics>,
}

impl RequestCounts {
    /// One, and what [`count_requests`] reads.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> (Self, mpsc::Receiver<Vec<AskedRequest>>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        (Self { queue, metrics }, waiting)
    }

    /// Takes these; where there is no room it is counted that they are not.
    pub(crate) fn take(&self, requests: Vec<AskedRequest>) {
        if let Err(refused) = self.queue.try_send(requests) {
            let requests = refused.into_inner().len() as u64;
            self.metrics.requests.uncounted.inc_by(requests);
        }
    }
}

/// Counts what comes by `waiting`, with the names that `engine` knows, until `drain` is cancelled.
///
/// # Errors
/// When the engine has stopped.
pub async fn count_requests(
    mut waiting: mpsc::Receiver<Vec<AskedRequest>>,
    engine: EngineHandle,
    metrics: Arc<Metrics>,
    drain: CancellationToken,
) -> Result<(), String> {
    let mut namer = Namer::default();
    loop {
        let requests = tokio::select! {
            biased;
            () = drain.cancelled() => return Ok(()),
            requests = waiting.recv() => requests,
        };
        let Some(requests) = requests else {
            drain.cancelled().await;
            return Ok(());
        };
        let clock = Clock::now();
        let named = engine
            .query(move |engine| {
                namer.renew(engine.generation());
                let name = |asked: AskedRequest| (namer.name(asked.event, engine, &clock), asked);
                let named: Vec<_> = requests.into_iter().map(name).collect();
                (namer, named)
            })
            .await
            .map_err(|e| e.to_string())?;
        namer = named.0;
        metrics.requests.count(&named.1);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    #[prometheus(flatten)]
    pair: PairLabels,
    status: &'static str,
}

/// Metrics of requests between workloads.
#[derive(Debug)]
pub struct RequestMetrics {
    most: NonZeroUsize,
    pairs: Mutex<HashSet<PairLabels>>,
    requests: Family<AnswerLabels, Counter>,
    duration: Family<PairLabels, Histogram, fn() -> Histogram>,
    pub(super) uncounted: Counter,
}

impl RequestMetrics {
    /// With at most `most` pairs of workloads.
    #[must_use]
    pub fn new(most: NonZeroUsize) -> Self {
        Self {
            most,
            pairs: Mutex::default(),
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(DURATION_SECONDS)),
            uncounted: Counter::default(),
        }
    }

    pub(crate) fn register(&self, r: &mut Registry) {
        let help = "Requests through Envoy, by the class of the answer's status";
        r.register("requests", help, self.requests.clone());
        let help = "From the first byte of a request to the last of its answer";
        let duration = self.duration.clone();
        r.register_with_unit("request_duration", help, Unit::Seconds, duration);
        let help = "Requests that came faster than they could be counted";
        r.register("requests_uncounted", help, self.uncounted.clone());
    }

    fn count(&self, requests: &[(NamedEvent, AskedRequest)]) {
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        for (named, asked) in requests {
            let mut pair = labels(named);
            if !pairs.contains(&pair) {
                if pairs.len() >= self.most.get() {
                    pair = PairLabels::overflow(pair.direction);
                } else {
                    pairs.insert(pair.clone());
                }
            }
            let duration = self.duration.get_or_create(&pair);
            duration.observe(asked.duration.as_secs_f64());
            // Only one lock of the family at a time.
            drop(duration);
            let status = class(asked.status);
            self.requests
                .get_or_create(&AnswerLabels { pair, status })
                .inc();
        }
    }
}

/// A server may answer with any number.
const fn class(status: u16) -> &'static str {
    match status {
        100..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        500..600 => "5xx",
        0 => "none",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::fake::Fake;
    use crate::flow::tests::{event, text};
    use crate::flow::{EventKind, Reason, WORKLOAD_PAIRS};

    fn asked(status: u16, source: std::net::SocketAddr) -> (NamedEvent, AskedRequest) {
        let event = Event {
            proxied: true,
            source,
            ..event(EventKind::Open, Reason::REASON_NONE)
        };
        let named = Namer::default().name(event, &Fake::new(), &Clock::fixed(0, 0));
        let duration = Duration::from_millis(20);
        let asked = AskedRequest {
            event,
            status,
            duration,
        };
        (named, asked)
    }

    #[test]
    fn a_request_is_counted_by_its_ends_and_its_answer() {
        let metrics = RequestMetrics::new(WORKLOAD_PAIRS);
        let usual = event(EventKind::Open, Reason::REASON_NONE).source;
        metrics.count(&[asked(200, usual), asked(204, usual), asked(0, usual)]);
        let text = text(|r| metrics.register(r));
        let line = |name: &str, has: &str| {
            let line = text
                .lines()
                .find(|l| l.starts_with(name) && l.contains(has));
            let line = line.unwrap_or_else(|| panic!("{name} {has}: {text}"));
            line.rsplit_once(' ').map(|(_, value)| value.to_owned())
        };
        let two = Some("2".to_owned());
        assert_eq!(line("weft_requests_total", "status=\"2xx\""), two);
        let one = Some("1".to_owned());
        assert_eq!(line("weft_requests_total", "status=\"none\""), one);
        assert!(text.contains("source_workload=\"probe\""), "{text}");
        let three = Some("3".to_owned());
        assert_eq!(line("weft_request_duration_seconds_count", ""), three);
        let below = line("weft_request_duration_seconds_bucket", "le=\"0.01\"");
        assert_eq!(below, Some("0".to_owned()));
    }

    #[test]
    fn pairs_are_bounded_and_the_rest_is_seen() {
        let metrics = RequestMetrics::new(NonZeroUsize::MIN);
        let usual = event(EventKind::Open, Reason::REASON_NONE).source;
        let other = event(EventKind::Open, Reason::REASON_NONE).destination;
        metrics.count(&[asked(200, usual), asked(200, other), asked(200, usual)]);
        let text = text(|r| metrics.register(r));
        let lines = text
            .lines()
            .filter(|l| l.starts_with("weft_requests_total"));
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines
                .iter()
                .any(|l| l.contains("\"overflow\"") && l.ends_with(" 1"))
        );
    }
}
