//! `google.protobuf.Duration`.

use std::time::Duration;

use envoy_types::pb::google::protobuf::Duration as Pb;

use super::ConvertError;

pub(super) fn encode(duration: Option<Duration>) -> Option<Pb> {
    let d = duration?;
    Some(Pb {
        seconds: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(d.subsec_nanos()).unwrap_or(0),
    })
}

/// A duration that is not negative; 0 means "off" in Envoy's API and `None` here.
pub(super) fn decode(pb: Option<&Pb>, field: &str) -> Result<Option<Duration>, ConvertError> {
    let Some(pb) = pb else { return Ok(None) };
    let std = u64::try_from(pb.seconds)
        .ok()
        .zip(u32::try_from(pb.nanos).ok())
        .filter(|(_, nanos)| *nanos < 1_000_000_000)
        .map(|(seconds, nanos)| Duration::new(seconds, nanos))
        .ok_or_else(|| ConvertError::new(field, "is not a positive duration"))?;
    Ok((!std.is_zero()).then_some(std))
}
