//! What Envoy's log says of requests, as the metrics want it.

use std::time::Duration;

use weft_proto::convert::request_log::{OF_CLIENTS, OF_SERVERS};
use weft_proto::envoy::envoy::data::accesslog::v3::HttpAccessLogEntry;
use weft_proto::envoy::google::protobuf::Duration as ProtoDuration;

use super::access_log::{event, socket};
use crate::flow::{AskedRequest, Direction, Event, EventKind, Reason};

/// Which side a log tells of; `None`: it is no log of all requests.
pub(super) fn side(log: &str) -> Option<Direction> {
    match log {
        OF_CLIENTS => Some(Direction::Egress),
        OF_SERVERS => Some(Direction::Ingress),
        _ => None,
    }
}

/// `None`: it does not say from where to where.
pub(super) fn asked(side: Direction, entry: &HttpAccessLogEntry) -> Option<AskedRequest> {
    let common = entry.common_properties.as_ref()?;
    let plain = event(common, EventKind::Open, Reason::REASON_NONE)?;
    let upstream = common.upstream_remote_address.as_ref().and_then(socket);
    let code = entry.response.as_ref().and_then(|r| r.response_code);
    let status = code.map_or(0, |code| code.value);
    let took = common.duration.or(common.time_to_last_downstream_tx_byte);
    Some(AskedRequest {
        event: Event {
            // What was asked for is the service; the pod is whom Envoy asked.
            vip: Some(plain.destination),
            destination: upstream.unwrap_or(plain.destination),
            direction: Some(side),
            allowed: true,
            ..plain
        },
        status: u16::try_from(status).unwrap_or_default(),
        duration: took.map_or(Duration::ZERO, length),
    })
}

fn length(took: ProtoDuration) -> Duration {
    let seconds = Duration::from_secs(took.seconds.try_into().unwrap_or_default());
    seconds + Duration::from_nanos(took.nanos.try_into().unwrap_or_default())
}
