//! From resources to what the kernel reads.

use std::time::Duration;

use weft_proto::model::Listener;

use crate::engine::NodeCluster;
use crate::tables::ServiceSettings;

/// The settings of a service behind `listeners` with so many backends in its slots. Where several listeners lead to one cluster
/// the strictest of each setting counts: the kernel has one set of them for each cluster and address family.
pub(crate) fn settings<'a>(
    cluster: &NodeCluster,
    listeners: impl Iterator<Item = &'a Listener>,
    backends: usize,
) -> ServiceSettings {
    let mut settings = ServiceSettings {
        connect_ms: cluster.connect_timeout.map_or(0, milliseconds),
        max_connections: cluster.max_connections.unwrap_or(0),
        ..ServiceSettings::default()
    };
    for listener in listeners {
        let idle = listener.idle_timeout.map_or(0, seconds);
        let lifetime = listener.max_duration.map_or(0, seconds);
        let rate = listener.connections_per_second.unwrap_or(0);
        settings.idle_seconds = stricter(settings.idle_seconds, idle);
        settings.lifetime_seconds = stricter(settings.lifetime_seconds, lifetime);
        settings.connections_per_second = stricter(settings.connections_per_second, rate);
    }
    if let Some(outlier) = cluster.outlier {
        settings.consecutive_failures = outlier.consecutive_failures.max(1);
        settings.base_ejection_ms = milliseconds(outlier.base_ejection);
        settings.max_ejected_percent = outlier.max_ejected_percent.min(100);
        settings.backends = u32::try_from(backends).unwrap_or(u32::MAX);
    }
    settings
}

/// Of two settings that may be 0, for not set.
fn stricter(a: u32, b: u32) -> u32 {
    match (a, b) {
        (0, other) | (other, 0) => other,
        (a, b) => a.min(b),
    }
}

/// A setting never becomes 0, which is not set.
fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis())
        .unwrap_or(u32::MAX)
        .max(1)
}

/// Rounded up: nothing is closed before its time.
fn seconds(duration: Duration) -> u32 {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(whole).unwrap_or(u32::MAX).max(1)
}
