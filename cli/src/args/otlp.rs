//! Options of the export of traces and metrics.

use std::time::Duration;

use clap::Args;
use weft_dataplane::otlp::{ExportConfig, Header, NamedRatio, Ratio, Sampling, Target};

/// Options of the export of traces and metrics.
#[derive(Debug, Args)]
pub(crate) struct OtlpArgs {
    /// OpenTelemetry collector that is sent the agent's metrics, and a span for each end of a connection and for each refusal: http://HOST:4317 for gRPC,
    /// http://HOST:4318/v1/traces for HTTP, or either with https
    #[arg(long, env = "WEFT_OTLP", value_name = "URL")]
    pub(crate) otlp: Option<Target>,

    /// Header of each request to the collector, such as a token, repeatable
    #[arg(
        long,
        env = "WEFT_OTLP_HEADER",
        value_name = "NAME=VALUE",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub(crate) otlp_header: Vec<Header>,

    /// Share of connections that are traced, from 0 to 1; all nodes choose the same ones. Refusals and failures always are
    #[arg(
        long,
        env = "WEFT_OTLP_SAMPLING",
        value_name = "SHARE",
        default_value = "1"
    )]
    pub(crate) otlp_sampling: Ratio,

    /// Share of connections to one service, at its addresses or at those of its endpoints, repeatable; give it to all nodes alike
    #[arg(
        long,
        env = "WEFT_OTLP_SERVICE_SAMPLING",
        value_name = "NAMESPACE/SERVICE=SHARE",
        value_delimiter = ','
    )]
    pub(crate) otlp_service_sampling: Vec<NamedRatio>,

    /// Share of connections to one workload, repeatable; give it to all nodes alike
    #[arg(
        long,
        env = "WEFT_OTLP_WORKLOAD_SAMPLING",
        value_name = "NAMESPACE/WORKLOAD=SHARE",
        value_delimiter = ','
    )]
    pub(crate) otlp_workload_sampling: Vec<NamedRatio>,

    /// Most bytes of spans a second; 0: no bound. What is over it is counted and not sent, refusals last
    #[arg(
        long,
        env = "WEFT_OTLP_BYTES_PER_SECOND",
        value_name = "BYTES",
        default_value_t = 0
    )]
    pub(crate) otlp_bytes_per_second: u64,

    /// How often metrics are sent, as in "15s"; "0s": never
    #[arg(
        long,
        env = "WEFT_OTLP_METRICS_INTERVAL",
        value_name = "TIME",
        default_value = "15s",
        value_parser = humantime::parse_duration
    )]
    pub(crate) otlp_metrics_interval: Duration,
}

impl OtlpArgs {
    /// `None`: nothing is exported.
    pub(crate) fn config(&self) -> Option<ExportConfig> {
        let target = self.otlp.clone()?;
        let services = self.otlp_service_sampling.iter().cloned();
        let workloads = self.otlp_workload_sampling.iter().cloned();
        Some(ExportConfig {
            target,
            headers: self.otlp_header.clone(),
            sampling: Sampling::new(self.otlp_sampling, services, workloads),
            bytes_per_second: self.otlp_bytes_per_second,
            metrics_interval: self.otlp_metrics_interval,
        })
    }
}
