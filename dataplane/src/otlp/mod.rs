//! Traces and metrics for an OpenTelemetry collector: a span for each end of a connection, and one for each refusal; at each
//! interval the agent's metrics ([`report`]).
//!
//! A [`crate::flow::FlowLog`] is followed, so nothing waits for a collector: flows become spans ([`span`]), some are left out
//! ([`sampling`], [`budget`]), the rest is encoded ([`template`], [`batch`]) and goes in batches through a bounded queue ([`task`])
//! and over gRPC or HTTP ([`transport`]). Envoy's spans of requests join them ([`requests`]). Each place that can lose spans counts what it lost ([`counts`]).
//!
//! Source: OTLP 1.9, <https://opentelemetry.io/docs/specs/otlp/>; names: the semantic conventions,
//! <https://opentelemetry.io/docs/specs/semconv/>.

mod attributes;
mod batch;
mod budget;
mod bursts;
mod counts;
mod encoded;
mod ids;
mod metrics;
mod parts;
mod reached;
mod report;
mod requests;
mod sampling;
mod span;
mod target;
mod task;
mod template;
mod transport;
mod wire;

pub use counts::{ExportMetrics, Outcome};
pub use reached::Arrival;
pub use report::Gather;
pub use requests::RequestSink;
pub use sampling::{NamedRatio, Ratio, RatioError, Sampling};
pub use target::{Header, HeaderError, Protocol, Target, TargetError};
pub use task::{ExportConfig, export};

#[cfg(test)]
mod tests;
