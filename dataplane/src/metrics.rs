//! Numbers in the OpenMetrics text format, and the HTTP server that shows them.

mod classic;
mod lag;
mod programs;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::prometheus_protobuf::{self, prometheus_data_model::MetricFamily};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use weft_proto::resource::ResourceType;
use weft_proto::wire::admin::v1::{Identities, ServiceLimits};

use crate::flow::{FlowMetrics, RequestMetrics, WORKLOAD_PAIRS, WorkloadMetrics};
use crate::identity::IdentityMetrics;
use crate::otlp::ExportMetrics;

pub use lag::Lag;
use programs::ProgramMetrics;
pub use programs::ProgramRuns;

/// Services with own series; beyond that there are only sums. Label sets cost memory here and money where they are stored.
pub const SERVICE_SERIES: usize = 1_000;

/// From 100 µs, which a single write takes, to the tens of seconds of a full sync on a slow machine.
const APPLY_SECONDS: [f64; 17] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002, 0.003, 0.005, 0.007_5, 0.01, 0.025, 0.05, 0.1, 0.25,
    0.5, 1.0, 3.0, 30.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TypeLabel {
    r#type: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MapLabel {
    map: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ServiceLabel {
    /// "namespace/name".
    pub(crate) service: String,
    pub(crate) port: String,
    /// One port may be served over several.
    pub(crate) protocol: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabel {
    #[prometheus(flatten)]
    of: ServiceLabel,
    /// The limit.
    by: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CounterLabel {
    counter: String,
}

/// What one look at the agent gives; everything that is not counted where it happens.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// A stream to the control plane is open.
    pub connected: bool,
    /// Everything was received once and is in the kernel.
    pub synced: bool,
    /// Of judgements from now on.
    pub policy_epoch: u32,
    /// Resources in effect, by type.
    pub resources: Vec<(ResourceType, usize)>,
    /// Resources not wholly in effect, by type.
    pub rejected: Vec<(ResourceType, usize)>,
    /// Use of each map: name, entries, capacity, refused writes.
    pub maps: Vec<(String, u64, u64, u64)>,
    /// Addresses that are refused because they found no room in a map.
    pub refused_addresses: u64,
    /// Prefixes whose strangers are refused with them.
    pub refused_prefixes: u64,
    /// Open and total connections; at most [`SERVICE_SERIES`].
    pub(crate) services: Vec<(ServiceLabel, u64, u64)>,
    /// Counts of those of them that have timeouts, limits or outlier detection.
    pub(crate) limits: Vec<(ServiceLabel, ServiceLimits)>,
    /// Certificates of local workloads.
    pub identities: Identities,
    /// The kernel's counters.
    pub counters: Vec<(&'static str, u64)>,
    /// What the kernel counts of its programs.
    pub programs: Vec<ProgramRuns>,
}

/// All metrics of the agent.
pub struct Metrics {
    registry: Mutex<Registry>,
    /// Flows and sweeps.
    pub flows: FlowMetrics,
    /// Connections between workloads.
    pub workloads: WorkloadMetrics,
    /// Requests between workloads.
    pub requests: RequestMetrics,
    identities: IdentityMetrics,
    programs: ProgramMetrics,
    /// The response that the tables do not have yet.
    pub lag: Lag,
    lag_seconds: Gauge<f64, AtomicU64>,
    /// Spans on their way to a collector.
    pub export: ExportMetrics,
    apply_seconds: Family<TypeLabel, Histogram, fn() -> Histogram>,
    applied: Family<TypeLabel, Counter>,
    /// Streams to the control plane that were lost, or could not be opened.
    pub reconnects: Counter,
    connected: Gauge,
    synced: Gauge,
    policy_epoch: Gauge,
    resources: Family<TypeLabel, Gauge>,
    rejected: Family<TypeLabel, Gauge>,
    map_entries: Family<MapLabel, Gauge>,
    map_capacity: Family<MapLabel, Gauge>,
    map_full: Family<MapLabel, Counter>,
    refused_addresses: Gauge,
    refused_prefixes: Gauge,
    open: Family<ServiceLabel, Gauge>,
    total: Family<ServiceLabel, Counter>,
    kernel: Family<CounterLabel, Counter>,
    refused: Family<RefusalLabel, Counter>,
    timed_out: Family<ServiceLabel, Counter>,
    ejected: Family<ServiceLabel, Gauge>,
    ejections: Family<ServiceLabel, Counter>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::with_pairs(WORKLOAD_PAIRS)
    }

    /// All at zero, with series for at most so many pairs of workloads.
    #[must_use]
    pub fn with_pairs(workload_pairs: NonZeroUsize) -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("weft")),
            flows: FlowMetrics::default(),
            workloads: WorkloadMetrics::new(workload_pairs),
            requests: RequestMetrics::new(workload_pairs),
            export: ExportMetrics::default(),
            identities: IdentityMetrics::default(),
            programs: ProgramMetrics::default(),
            lag: Lag::default(),
            lag_seconds: Gauge::default(),
            apply_seconds: Family::new_with_constructor(|| Histogram::new(APPLY_SECONDS)),
            applied: Family::default(),
            reconnects: Counter::default(),
            connected: Gauge::default(),
            synced: Gauge::default(),
            policy_epoch: Gauge::default(),
            resources: Family::default(),
            rejected: Family::default(),
            map_entries: Family::default(),
            map_capacity: Family::default(),
            map_full: Family::default(),
            refused_addresses: Gauge::default(),
            refused_prefixes: Gauge::default(),
            open: Family::default(),
            total: Family::default(),
            kernel: Family::default(),
            refused: Family::default(),
            timed_out: Family::default(),
            ejected: Family::default(),
            ejections: Family::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut r = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        r.register("build", "What is running", build);
        r.register_with_unit(
            "sync_apply",
            "From a response of the control plane to the tables written",
            Unit::Seconds,
            self.apply_seconds.clone(),
        );
        let help =
            "How long ago the version was received that is not in the tables yet; 0: all are";
        let lag = self.lag_seconds.clone();
        r.register_with_unit("sync_lag", help, Unit::Seconds, lag);
        r.register("sync_resources", "Resources received", self.applied.clone());
        let help = "Streams to the control plane lost or not opened";
        r.register("control_reconnects", help, self.reconnects.clone());
        r.register(
            "control_connected",
            "1: a stream is open",
            self.connected.clone(),
        );
        r.register(
            "synced",
            "1: everything was received once",
            self.synced.clone(),
        );
        let help = "Grows whenever living connections have to be judged again";
        r.register("policy_epoch", help, self.policy_epoch.clone());
        r.register("resources", "Resources in effect", self.resources.clone());
        let help = "Resources not wholly in effect";
        r.register("resources_rejected", help, self.rejected.clone());
        r.register("map_entries", "Entries in use", self.map_entries.clone());
        r.register(
            "map_capacity",
            "Entries there is room for",
            self.map_capacity.clone(),
        );
        let help = "Writes refused because the map was full, since the agent started";
        r.register("map_full", help, self.map_full.clone());
        self.register_refusals(&mut r);
        let help = "Connections to backends of the service now (the first services by name only)";
        r.register("service_connections_open", help, self.open.clone());
        let help = "Connections to backends of the service ever (the first services by name only)";
        r.register("service_connections", help, self.total.clone());
        let help = "Connects refused by a limit of the service";
        r.register("service_connects_refused", help, self.refused.clone());
        let help = "Connects that took longer than the service's timeout";
        r.register("service_connects_timed_out", help, self.timed_out.clone());
        let help = "Backends of the service passed over now because their connections failed";
        r.register("service_backends_ejected", help, self.ejected.clone());
        let help = "Ejections of backends of the service";
        r.register("service_ejections", help, self.ejections.clone());
        self.flows.register(&mut r);
        self.workloads.register(&mut r);
        self.requests.register(&mut r);
        self.export.register(&mut r);
        self.identities.register(&mut r);
        self.programs.register(&mut r);
        let help = "What kernel programs have counted since their maps were made";
        r.register("kernel_events", help, self.kernel.clone());
    }

    fn register_refusals(&self, r: &mut Registry) {
        let help = "Addresses refused because who they are found no room in a map";
        let addresses = self.refused_addresses.clone();
        r.register("policy_refused_addresses", help, addresses);
        let help = "Prefixes of which everybody is refused with them that has no entry of its own";
        let prefixes = self.refused_prefixes.clone();
        r.register("policy_refused_prefixes", help, prefixes);
    }

    /// A response with this many resources is in the tables.
    pub fn applied(&self, resource_type: ResourceType, took: Duration, resources: usize) {
        let label = type_label(resource_type);
        let histogram = self.apply_seconds.get_or_create(&label);
        histogram.observe(took.as_secs_f64());
        drop(histogram);
        self.applied.get_or_create(&label).inc_by(resources as u64);
    }

    /// As [`Metrics::encode`], in Prometheus' older text format (0.0.4).
    ///
    /// # Errors
    /// As there.
    pub fn encode_classic(&self, snapshot: &Snapshot) -> Result<String, fmt::Error> {
        self.encode(snapshot)
            .map(|text| classic::from_open_metrics(&text))
    }

    /// The text of a scrape, as OpenMetrics has it.
    ///
    /// # Errors
    /// Never, as far as writing into a string goes.
    pub fn encode(&self, snapshot: &Snapshot) -> Result<String, fmt::Error> {
        self.take(snapshot);
        let mut out = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        text::encode(&mut out, &registry)?;
        Ok(out)
    }

    /// The same as data.
    ///
    /// # Errors
    /// As [`Metrics::encode`].
    pub fn gather(&self, snapshot: &Snapshot) -> Result<Vec<MetricFamily>, fmt::Error> {
        self.take(snapshot);
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        prometheus_protobuf::encode(&registry)
    }

    fn take(&self, snapshot: &Snapshot) {
        self.connected.set(snapshot.connected.into());
        self.synced.set(snapshot.synced.into());
        self.policy_epoch.set(snapshot.policy_epoch.into());
        for (family, values) in [
            (&self.resources, &snapshot.resources),
            (&self.rejected, &snapshot.rejected),
        ] {
            for (resource_type, count) in values {
                set(family, &type_label(*resource_type), *count as u64);
            }
        }
        for (map, entries, capacity, full) in &snapshot.maps {
            let label = MapLabel { map: map.clone() };
            set(&self.map_entries, &label, *entries);
            set(&self.map_capacity, &label, *capacity);
            count(&self.map_full, &label, *full);
        }
        self.refused_addresses
            .set(i64::try_from(snapshot.refused_addresses).unwrap_or(i64::MAX));
        self.refused_prefixes
            .set(i64::try_from(snapshot.refused_prefixes).unwrap_or(i64::MAX));
        self.identities.take(&snapshot.identities);
        self.programs.take(&snapshot.programs);
        self.lag_seconds.set(self.lag.now().as_secs_f64());
        // Services come and go: no series of one that is gone.
        self.open.clear();
        self.total.clear();
        for (label, open, total) in snapshot.services.iter().take(SERVICE_SERIES) {
            set(&self.open, label, *open);
            count(&self.total, label, *total);
        }
        self.take_limits(&snapshot.limits);
        for (name, value) in &snapshot.counters {
            let counter = (*name).to_owned();
            count(&self.kernel, &CounterLabel { counter }, *value);
        }
    }
}

impl Metrics {
    fn take_limits(&self, services: &[(ServiceLabel, ServiceLimits)]) {
        self.refused.clear();
        self.timed_out.clear();
        self.ejected.clear();
        self.ejections.clear();
        for (label, limits) in services.iter().take(SERVICE_SERIES) {
            for (by, refused) in [
                ("max_connections", limits.limited),
                ("connections_per_second", limits.rate_limited),
            ] {
                let label = RefusalLabel {
                    of: label.clone(),
                    by: by.to_owned(),
                };
                count(&self.refused, &label, refused);
            }
            count(&self.timed_out, label, limits.timed_out);
            set(&self.ejected, label, limits.ejected.into());
            count(&self.ejections, label, limits.ejections);
        }
    }
}

fn type_label(resource_type: ResourceType) -> TypeLabel {
    TypeLabel {
        r#type: resource_type.to_string(),
    }
}

fn set<L>(family: &Family<L, Gauge>, label: &L, value: u64)
where
    L: Clone + Eq + std::hash::Hash,
{
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    family.get_or_create(label).set(value);
}

/// Shows a count that is kept elsewhere.
fn count<L>(family: &Family<L, Counter>, label: &L, value: u64)
where
    L: Clone + Eq + std::hash::Hash,
{
    let counter = family.get_or_create(label);
    counter.inner().store(value, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_shows_what_was_counted_and_forgets_services_that_are_gone() {
        let metrics = Metrics::new();
        metrics.applied(ResourceType::Listener, Duration::from_micros(150), 3);
        let label = |protocol: &str| ServiceLabel {
            service: "shop/cart".to_owned(),
            port: "53".to_owned(),
            protocol: protocol.to_owned(),
        };
        let mut snapshot = Snapshot {
            connected: true,
            policy_epoch: 3,
            services: vec![(label("tcp"), 2, 7), (label("udp"), 0, 1)],
            maps: vec![("slots".into(), 5, 10, 1)],
            refused_addresses: 2,
            refused_prefixes: 1,
            counters: vec![("refused", 4)],
            ..Default::default()
        };
        let text = metrics.encode(&snapshot).expect("text");
        for line in [
            "weft_control_connected 1",
            "weft_policy_epoch 3",
            "weft_map_entries{map=\"slots\"} 5",
            "weft_map_full_total{map=\"slots\"} 1",
            "weft_policy_refused_addresses 2",
            "weft_policy_refused_prefixes 1",
            "weft_kernel_events_total{counter=\"refused\"} 4",
            "weft_service_connections_total{service=\"shop/cart\",port=\"53\",protocol=\"tcp\"} 7",
            "weft_service_connections_total{service=\"shop/cart\",port=\"53\",protocol=\"udp\"} 1",
            "weft_service_connections_open{service=\"shop/cart\",port=\"53\",protocol=\"tcp\"} 2",
            "weft_sync_apply_seconds_bucket{le=\"0.0001\",type=\"Listener\"} 0",
            "weft_sync_apply_seconds_bucket{le=\"0.00025\",type=\"Listener\"} 1",
            "weft_sync_resources_total{type=\"Listener\"} 3",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        snapshot.services.clear();
        let text = metrics.encode(&snapshot).expect("text");
        assert!(!text.contains("shop/cart"), "{text}");
    }
}
