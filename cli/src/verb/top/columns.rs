//! The tabs and their columns.

use std::cmp::Ordering;

use super::format;
use super::rows::{Row, Times};

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    /// What was asked for.
    Services,
    /// What runs.
    Workloads,
    /// Who talks to whom.
    Connections,
}

/// A column. Wider terminals have more of them.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// 0: all that the others leave.
    pub(super) width: u16,
    /// Shown where the terminal has this many columns.
    pub(super) from: u16,
    pub(super) text: fn(&Row) -> String,
    value: fn(&Row) -> f64,
}

impl Tab {
    pub(super) const ALL: [Self; 3] = [Self::Services, Self::Workloads, Self::Connections];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Services => "Service",
            Self::Workloads => "Workload",
            Self::Connections => "From > to",
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Workloads => "workloads",
            Self::Connections => "connections",
        }
    }

    /// The one after it, round and round.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Services => Self::Workloads,
            Self::Workloads => Self::Connections,
            Self::Connections => Self::Services,
        }
    }

    pub(super) const fn columns(self) -> &'static [Column] {
        match self {
            Self::Workloads => &WORKLOADS,
            Self::Services | Self::Connections => &OTHERS,
        }
    }
}

const NAME: Column = Column {
    title: "NAME",
    width: 0,
    from: 0,
    text: |row| row.name.clone(),
    value: |_| 0.0,
};
const OPENED: Column = Column {
    title: "CONN/S",
    width: 7,
    from: 0,
    text: |row| format::count(row.opened),
    value: |row| row.opened,
};
const INCOMING: Column = Column {
    title: "IN/S",
    ..OPENED
};
const OUTGOING: Column = Column {
    title: "OUT/S",
    width: 7,
    from: 0,
    text: |row| format::count(row.out),
    value: |row| row.out,
};
const OPEN: Column = Column {
    title: "OPEN",
    width: 6,
    from: 0,
    text: |row| format::count(row.open as f64),
    value: |row| row.open as f64,
};
const BYTES: Column = Column {
    title: "BYTES/S",
    width: 8,
    from: 0,
    text: |row| format::bytes(row.sent + row.received),
    value: |row| row.sent + row.received,
};
const RTT: Column = Column {
    title: "RTT p50",
    width: 8,
    from: 0,
    text: |row| time(row.rtt_us.as_ref(), |t| t.p50),
    value: |row| row.rtt_us.map_or(0.0, |t| t.p50),
};
const RTT_95: Column = Column {
    title: "p95",
    width: 7,
    from: 0,
    text: |row| time(row.rtt_us.as_ref(), |t| t.p95),
    value: |row| row.rtt_us.map_or(0.0, |t| t.p95),
};
const LASTED: Column = Column {
    title: "LASTS p50",
    width: 10,
    from: 100,
    text: |row| time(row.lasted_us.as_ref(), |t| t.p50),
    value: |row| row.lasted_us.map_or(0.0, |t| t.p50),
};
const LASTED_95: Column = Column {
    title: "LASTS p95",
    width: 10,
    from: 80,
    text: |row| time(row.lasted_us.as_ref(), |t| t.p95),
    value: |row| row.lasted_us.map_or(0.0, |t| t.p95),
};
const RETRANSMITS: Column = Column {
    title: "RETR/S",
    width: 7,
    from: 110,
    text: |row| format::count(row.retransmits),
    value: |row| row.retransmits,
};
const DENIED: Column = Column {
    title: "DENIED/S",
    width: 9,
    from: 0,
    text: |row| match row.denied {
        0.0 => "-".to_owned(),
        denied => format::count(denied),
    },
    value: |row| row.denied,
};

static WORKLOADS: [Column; 10] = [
    NAME,
    INCOMING,
    OUTGOING,
    OPEN,
    BYTES,
    RTT,
    RTT_95,
    LASTED,
    RETRANSMITS,
    DENIED,
];
static OTHERS: [Column; 10] = [
    NAME,
    OPENED,
    OPEN,
    BYTES,
    RTT,
    RTT_95,
    LASTED,
    LASTED_95,
    RETRANSMITS,
    DENIED,
];

fn time(times: Option<&Times>, of: impl Fn(&Times) -> f64) -> String {
    times.map_or_else(|| "-".to_owned(), |times| format::micros(of(times)))
}

/// What has most comes first, names in their order; column 0 is the name, and stands for what is busiest.
pub(super) fn compare(tab: Tab, column: usize, a: &Row, b: &Row) -> Ordering {
    let by = match column {
        0 => 1,
        column => column,
    };
    let value = tab.columns().get(by).map_or(NAME.value, |c| c.value);
    value(b)
        .total_cmp(&value(a))
        .then_with(|| a.name.cmp(&b.name))
}
