//! Metrics on their way to the collector: at each interval what `/metrics` would show.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;
use tokio_util::sync::CancellationToken;

use super::metrics;
use super::reached::Arrival;
use super::transport::Transport;
use crate::metrics::Metrics;

/// What the export asks the agent for.
pub trait Gather: Clone + Send + Sync {
    /// The metrics as they are now; `None` while there are none.
    fn gather(&self) -> impl Future<Output = Option<Vec<MetricFamily>>> + Send;

    /// Where connections to these services ("namespace/name") arrive, by their place in `services`.
    fn reached_at(&self, services: &[String])
    -> impl Future<Output = Vec<(usize, Arrival)>> + Send;
}

/// Sends metrics. What fails is not sent again: the next ones say as much.
pub(super) struct Reporter<G> {
    pub(super) node: String,
    /// 0: never.
    pub(super) every: Duration,
    pub(super) transport: Transport,
    pub(super) metrics: Arc<Metrics>,
    pub(super) gather: G,
}

impl<G: Gather> Reporter<G> {
    pub(super) async fn run(self, drain: CancellationToken) {
        if self.every.is_zero() {
            return;
        }
        let start = unix_nano(SystemTime::now());
        let mut failing = false;
        loop {
            let pause = tokio::time::sleep(self.every);
            if drain.run_until_cancelled(pause).await.is_none() {
                return;
            }
            let report = self.report(start);
            let Some(sent) = drain.run_until_cancelled(report).await else {
                return;
            };
            self.metrics.export.reported(sent.is_ok());
            match sent {
                Ok(()) => failing = false,
                Err(error) if !std::mem::replace(&mut failing, true) => {
                    tracing::warn!("the collector takes no metrics: {error}");
                }
                Err(_) => {}
            }
        }
    }

    async fn report(&self, start: u64) -> Result<(), String> {
        let gathered = self.gather.gather().await;
        let set = gathered.ok_or("the engine has stopped")?;
        // Somebody may have set the time back.
        let now = unix_nano(SystemTime::now()).max(start);
        let request = metrics::request(&set, &self.node, start, now);
        let rejected = self.transport.metrics(&request).await;
        match rejected.map_err(|e| e.to_string())? {
            0 => Ok(()),
            points => Err(format!("it refused {points} points")),
        }
    }
}

fn unix_nano(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX))
}
