//! Points in time as people and JSON write them.

use std::time::{Duration, SystemTime};

/// Nanoseconds since 1970 as RFC 3339 with microseconds, in UTC.
#[must_use]
pub fn rfc3339(nanos: u64) -> String {
    text(nanos).to_string()
}

fn text(nanos: u64) -> humantime::Rfc3339Timestamp {
    // 64 bits of nanoseconds end in 2554: there is always such a text.
    humantime::format_rfc3339_micros(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos))
}

pub(crate) fn serialize<S: serde::Serializer>(nanos: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&text(*nanos))
}
