//! Maps `service_settings`, `service_states` and `backend_health`: timeouts, limits and outlier ejection.

use std::num::NonZeroU32;

use weft_proto::model::LbPolicy;

use crate::bpf::{Record, types};

/// What a service asks for besides a backend, as the kernel has it: 0 is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ServiceSettings {
    /// A handshake that takes longer fails; milliseconds.
    pub connect_ms: u32,
    /// A connection without traffic for so many seconds is closed.
    pub idle_seconds: u32,
    /// A connection is closed at this age in seconds.
    pub lifetime_seconds: u32,
    /// Open connections from this node.
    pub max_connections: u32,
    /// New connections from this node.
    pub connections_per_second: u32,
    /// Failed connects in a row until a backend is ejected.
    pub consecutive_failures: u32,
    /// Length of the first ejection in milliseconds; the n-th in a row lasts n times as long.
    pub base_ejection_ms: u32,
    /// Most backends ejected at a time; one always may be.
    pub max_ejected_percent: u32,
    /// Of so many. Counts only where backends are ejected.
    pub backends: u32,
}

impl ServiceSettings {
    /// Nothing is asked for: such a service has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How soon a connection may be ended for its age: seconds of silence, or in all.
    #[must_use]
    pub fn shortest_age(&self) -> Option<NonZeroU32> {
        let ages = [self.idle_seconds, self.lifetime_seconds];
        ages.into_iter().filter_map(NonZeroU32::new).min()
    }

    /// What the kernel has to look at for these settings and this policy.
    #[must_use]
    pub fn flags(&self, policy: LbPolicy, layer7: bool) -> ServiceFlags {
        use types::service_flags as f;
        let wanted = [
            (self.connect_ms > 0, f::SERVICE_TIMED),
            (
                self.idle_seconds > 0 || self.lifetime_seconds > 0,
                f::SERVICE_AGED,
            ),
            (
                self.max_connections > 0 || self.connections_per_second > 0,
                f::SERVICE_LIMITED,
            ),
            (self.consecutive_failures > 0, f::SERVICE_OUTLIER),
            (policy == LbPolicy::LeastRequest, f::SERVICE_RTT),
            (layer7, f::SERVICE_LAYER7),
        ];
        let set = wanted.into_iter().filter(|(wanted, _)| *wanted);
        ServiceFlags(set.fold(0, |all, (_, flag)| all | flag.0))
    }
}

/// `enum service_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ServiceFlags(pub u32);

impl ServiceFlags {
    /// These, and whether connections stay with TCP.
    #[must_use]
    pub const fn unaccelerated(self, wanted: bool) -> Self {
        match wanted {
            true => Self(self.0 | types::service_flags::SERVICE_UNACCELERATED.0),
            false => self,
        }
    }

    /// These, and whether only backends of this node are asked.
    #[must_use]
    pub const fn node_only(self, wanted: bool) -> Self {
        match wanted {
            true => Self(self.0 | types::service_flags::SERVICE_NODE_ONLY.0),
            false => self,
        }
    }

    /// The kernel reads the service's [`ServiceSettings`].
    #[must_use]
    pub const fn need_settings(self) -> bool {
        use types::service_flags as f;
        let others = f::SERVICE_RTT.0
            | f::SERVICE_UNACCELERATED.0
            | f::SERVICE_LAYER7.0
            | f::SERVICE_NODE_ONLY.0;
        self.0 & !others != 0
    }
}

impl Record for ServiceSettings {
    type Raw = types::service_settings;

    fn to_raw(&self) -> Self::Raw {
        types::service_settings {
            connect_ms: self.connect_ms,
            idle_s: self.idle_seconds,
            lifetime_s: self.lifetime_seconds,
            max_connections: self.max_connections,
            connections_per_second: self.connections_per_second,
            consecutive_failures: self.consecutive_failures,
            base_ejection_ms: self.base_ejection_ms,
            max_ejected_percent: self.max_ejected_percent,
            backends: self.backends,
            pad: 0,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            connect_ms: raw.connect_ms,
            idle_seconds: raw.idle_s,
            lifetime_seconds: raw.lifetime_s,
            max_connections: raw.max_connections,
            connections_per_second: raw.connections_per_second,
            consecutive_failures: raw.consecutive_failures,
            base_ejection_ms: raw.base_ejection_ms,
            max_ejected_percent: raw.max_ejected_percent,
            backends: raw.backends,
        })
    }
}

/// What the kernel has counted for a service; the agent only ever writes the default, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ServiceState {
    /// Connections now, of those that began under limits.
    pub open: u64,
    /// Refused by `max_connections`.
    pub limited: u64,
    /// Refused by `connections_per_second`.
    pub rate_limited: u64,
    /// Connects that took too long.
    pub timed_out: u64,
    /// Backends ejected, ever.
    pub ejections: u64,
    /// Backends ejected now.
    pub ejected: u32,
}

impl Record for ServiceState {
    type Raw = types::service_state;

    fn to_raw(&self) -> Self::Raw {
        types::service_state {
            open: self.open,
            full_ns: 0,
            limited: self.limited,
            rate_limited: self.rate_limited,
            timed_out: self.timed_out,
            ejections: self.ejections,
            ejected: self.ejected,
            pad: 0,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            open: raw.open,
            limited: raw.limited,
            rate_limited: raw.rate_limited,
            timed_out: raw.timed_out,
            ejections: raw.ejections,
            ejected: raw.ejected,
        })
    }
}

/// A backend that failed lately; written by the kernel alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BackendHealth {
    /// CLOCK_MONOTONIC; 0: not ejected.
    pub ejected_until_ns: u64,
    /// Failed connects and early resets in a row.
    pub failures: u32,
    /// Ejections in a row.
    pub ejections: u32,
}

impl Record for BackendHealth {
    type Raw = types::backend_health;

    fn to_raw(&self) -> Self::Raw {
        types::backend_health {
            ejected_until_ns: self.ejected_until_ns,
            failures: self.failures,
            ejections: self.ejections,
            ..Default::default()
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            ejected_until_ns: raw.ejected_until_ns,
            failures: raw.failures.saturating_add(raw.resets),
            ejections: raw.ejections,
        })
    }
}
