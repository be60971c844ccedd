//! Prometheus metrics as OTLP: the same names and numbers as `/metrics`, written as OpenTelemetry writes them. "weft_flows_total" is
//! "weft.flows" here, "weft_connection_rtt_seconds" is "weft.connection_rtt" in "s"; a collector that writes Prometheus text
//! makes the former of the latter again.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/>.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_semantic_conventions::attribute as name;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model as prometheus;

use super::attributes::Attributes;

/// When counting began, and when it was looked at: nanoseconds since 1970.
#[derive(Clone, Copy)]
struct Times {
    start: u64,
    now: u64,
}

/// Everything in `families`, as of `node`.
pub(super) fn request(
    families: &[prometheus::MetricFamily],
    node: &str,
    start: u64,
    now: u64,
) -> ExportMetricsServiceRequest {
    let times = Times { start, now };
    let metrics = families.iter().filter_map(|f| metric(f, times));
    let scope = ScopeMetrics {
        scope: Some(InstrumentationScope {
            name: "weft".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        }),
        metrics: metrics.collect(),
        ..Default::default()
    };
    let mut attributes = Attributes::default();
    attributes.text(name::SERVICE_NAME, "weft-agent");
    attributes.text(name::SERVICE_INSTANCE_ID, node);
    attributes.text(name::K8S_NODE_NAME, node);
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: attributes.done(),
                ..Default::default()
            }),
            scope_metrics: vec![scope],
            schema_url: opentelemetry_semantic_conventions::SCHEMA_URL.to_owned(),
        }],
    }
}

/// `None`: nothing has been counted yet.
fn metric(family: &prometheus::MetricFamily, times: Times) -> Option<Metric> {
    if family.metric.is_empty() {
        return None;
    }
    let cumulative = AggregationTemporality::Cumulative.into();
    let metrics = family.metric.iter();
    let data = match family.r#type() {
        prometheus::MetricType::Counter => Data::Sum(Sum {
            data_points: metrics.filter_map(|m| number(m, times)).collect(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        prometheus::MetricType::Histogram => Data::Histogram(Histogram {
            data_points: metrics.filter_map(|m| histogram(m, times)).collect(),
            aggregation_temporality: cumulative,
        }),
        _ => Data::Gauge(Gauge {
            data_points: metrics.filter_map(|m| number(m, times)).collect(),
        }),
    };
    Some(Metric {
        name: name_of(family),
        description: family.help.clone(),
        unit: unit(&family.unit).to_owned(),
        data: Some(data),
        ..Default::default()
    })
}

/// Without what OpenTelemetry says elsewhere: that it counts, and in what.
fn name_of(family: &prometheus::MetricFamily) -> String {
    let name = family.name.as_str();
    let name = name.strip_suffix("_total").unwrap_or(name);
    let name = match family.unit.as_str() {
        "" => name,
        unit => name
            .strip_suffix(unit)
            .and_then(|name| name.strip_suffix('_'))
            .unwrap_or(name),
    };
    name.replacen('_', ".", 1)
}

/// UCUM's name of a unit.
fn unit(open: &str) -> &str {
    match open {
        "seconds" => "s",
        "bytes" => "By",
        other => other,
    }
}

fn number(metric: &prometheus::Metric, times: Times) -> Option<NumberDataPoint> {
    let value = match (&metric.counter, &metric.gauge) {
        (Some(counter), _) => counter.value,
        (None, Some(gauge)) => gauge.value,
        (None, None) => return None,
    };
    Some(NumberDataPoint {
        attributes: labels(metric),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        value: Some(Number::AsDouble(value)),
        ..Default::default()
    })
}

fn histogram(metric: &prometheus::Metric, times: Times) -> Option<HistogramDataPoint> {
    let histogram = metric.histogram.as_ref()?;
    // Prometheus counts what is up to each bound, OTLP what is between two; the last bound is none.
    let counts = histogram.bucket.iter().scan(0, |below, bucket| {
        let count = bucket.cumulative_count.saturating_sub(*below);
        *below = bucket.cumulative_count;
        Some(count)
    });
    let bounds = histogram.bucket.iter().map(|b| b.upper_bound);
    Some(HistogramDataPoint {
        attributes: labels(metric),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: histogram.sample_count,
        sum: Some(histogram.sample_sum),
        bucket_counts: counts.collect(),
        explicit_bounds: bounds.filter(|bound| bound.is_finite()).collect(),
        ..Default::default()
    })
}

fn labels(metric: &prometheus::Metric) -> Vec<KeyValue> {
    let mut attributes = Attributes::default();
    for label in &metric.label {
        attributes.text(&label.name, &label.value);
    }
    attributes.done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Metrics, Snapshot};

    #[test]
    fn numbers_are_those_of_the_text() {
        let metrics = Metrics::new();
        metrics.reconnects.inc_by(3);
        let swept = crate::conntrack::Swept {
            expired: 7,
            ..Default::default()
        };
        for millis in [1, 30, 30, 9_000] {
            let took = std::time::Duration::from_millis(millis);
            metrics.flows.swept(took, &swept);
        }
        let set = metrics.gather(&Snapshot::default()).expect("a set");
        let request = request(&set, "n1", 5, 9);
        let all = &request.resource_metrics[0].scope_metrics[0].metrics;
        let find = |name: &str| {
            let found = all.iter().find(|m| m.name == name);
            found.unwrap_or_else(|| panic!("no {name}"))
        };
        let Some(Data::Sum(sum)) = &find("weft.control_reconnects").data else {
            panic!("no sum");
        };
        assert!(sum.is_monotonic);
        assert_eq!(sum.data_points[0].value, Some(Number::AsDouble(3.0)));
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 9));

        let sweeps = find("weft.conntrack_sweep");
        assert_eq!(sweeps.unit, "s");
        let Some(Data::Histogram(histogram)) = &sweeps.data else {
            panic!("no histogram");
        };
        let point = &histogram.data_points[0];
        assert_eq!(point.count, 4);
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), 4);
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!(
            point.bucket_counts.last(),
            Some(&1),
            "9 s are past all bounds"
        );
        assert!((point.sum.unwrap_or_default() - 9.061).abs() < 1e-9);

        let Some(Data::Gauge(synced)) = &find("weft.synced").data else {
            panic!("no gauge");
        };
        assert_eq!(synced.data_points[0].value, Some(Number::AsDouble(0.0)));
        assert!(all.iter().all(|m| m.name.starts_with("weft.")));
    }
}
