//! What Envoy tells of requests that policies refused, or would have: its access log, sent over gRPC to the socket of its control plane.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/accesslog/v3/als.proto>.

use std::net::SocketAddr;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};
use weft_proto::envoy::envoy::config::core::v3::{
    Address, Metadata, RequestMethod, address, socket_address::PortSpecifier,
};
use weft_proto::envoy::envoy::data::accesslog::v3::{AccessLogCommon, HttpAccessLogEntry};
use weft_proto::envoy::envoy::service::accesslog::v3::access_log_service_server::AccessLogService;
use weft_proto::envoy::envoy::service::accesslog::v3::stream_access_logs_message::LogEntries;
use weft_proto::envoy::envoy::service::accesslog::v3::{
    StreamAccessLogsMessage, StreamAccessLogsResponse,
};
use weft_proto::envoy::google::protobuf::value::Kind;

use super::request_log::{asked, side};
use crate::flow::{self, Direction, Event, EventKind, JudgedRequest, Reason, RequestCounts};

/// Judgements that wait for their names. More at a time are left out, and counted.
pub const QUEUE: usize = 4_096;
/// More of a path or host is not shown.
const LONGEST: usize = 256;
const TCP: u8 = 6;
/// Of the RBAC filter's details and metadata.
const REFUSED: &str = "rbac_access_denied_matched_policy[";
const METADATA: &str = "envoy.filters.http.rbac";
const SHADOWS: [&str; 2] = ["deny_shadow_", "allow_shadow_"];

/// Takes Envoy's access log.
#[derive(Debug)]
pub struct AccessLog {
    sink: mpsc::Sender<JudgedRequest>,
    counts: Option<RequestCounts>,
}

impl AccessLog {
    /// Passes judgements on to `sink`.
    #[must_use]
    pub const fn new(sink: mpsc::Sender<JudgedRequest>) -> Self {
        let counts = None;
        Self { sink, counts }
    }

    /// Also has Envoy tell of all requests, and passes them on to `counts`.
    #[must_use]
    pub fn with_counts(self, counts: Option<RequestCounts>) -> Self {
        Self { counts, ..self }
    }

    /// It does.
    pub(super) const fn counts_requests(&self) -> bool {
        self.counts.is_some()
    }

    fn count(&self, direction: Direction, message: StreamAccessLogsMessage) {
        if let (Some(LogEntries::HttpLogs(entries)), Some(counts)) =
            (message.log_entries, &self.counts)
        {
            let entries = entries.log_entry.iter();
            counts.take(entries.filter_map(|e| asked(direction, e)).collect());
        }
    }

    fn take(&self, message: StreamAccessLogsMessage) {
        let Some(LogEntries::HttpLogs(entries)) = message.log_entries else {
            return;
        };
        let mut lost = 0;
        for judged in entries.log_entry.iter().filter_map(judged) {
            lost += u64::from(self.sink.try_send(judged).is_err());
        }
        if lost > 0 {
            tracing::warn!("{lost} refused requests are not told: more come than can be named");
        }
    }
}

#[tonic::async_trait]
impl AccessLogService for AccessLog {
    async fn stream_access_logs(
        &self,
        request: Request<Streaming<StreamAccessLogsMessage>>,
    ) -> Result<Response<StreamAccessLogsResponse>, Status> {
        let mut messages = request.into_inner();
        let mut told_of = None;
        while let Some(message) = messages.message().await? {
            // Only the first one of a stream says which log it is.
            if let Some(log) = &message.identifier {
                told_of = side(&log.log_name);
            }
            match told_of {
                Some(direction) => self.count(direction, message),
                None => self.take(message),
            }
        }
        Ok(Response::new(StreamAccessLogsResponse {}))
    }
}

/// `None`: policies had nothing against it.
fn judged(entry: &HttpAccessLogEntry) -> Option<JudgedRequest> {
    let common = entry.common_properties.as_ref()?;
    let request = entry.request.as_ref()?;
    let response = entry.response.as_ref()?;
    let details = response.response_code_details.strip_prefix(REFUSED);
    let (kind, rule) = match details.and_then(|rest| rest.strip_suffix(']')) {
        Some(rule) => (EventKind::Denied, rule.to_owned()),
        None => (EventKind::Audited, audited(common.metadata.as_ref()?)?),
    };
    let rule = rule.split_once('|');
    let rule = rule.map(|(policy, rule)| (policy.to_owned(), rule.to_owned()));
    let reason = match rule {
        Some(_) => Reason::REASON_POLICY,
        None => Reason::REASON_ISOLATED,
    };
    let method = RequestMethod::try_from(request.request_method).unwrap_or_default();
    let status = response.response_code.as_ref().map_or(0, |code| code.value);
    Some(JudgedRequest {
        event: event(common, kind, reason)?,
        rule,
        request: flow::Request {
            method: method.as_str_name().to_owned(),
            authority: short(&request.authority),
            path: short(request.path.split('?').next().unwrap_or_default()),
            status: u16::try_from(status).unwrap_or_default(),
        },
    })
}

/// The rule of a shadow policy that would have refused: "none" if it is that none matched.
fn audited(metadata: &Metadata) -> Option<String> {
    let said = &metadata.filter_metadata.get(METADATA)?.fields;
    let text = |key: String| match said.get(&key)?.kind.as_ref()? {
        Kind::StringValue(text) => Some(text.as_str()),
        _ => None,
    };
    SHADOWS.into_iter().find_map(|prefix| {
        let refuses = text(format!("{prefix}engine_result"))? == "denied";
        let rule = text(format!("{prefix}effective_policy_id")).unwrap_or("none");
        refuses.then(|| rule.to_owned())
    })
}

pub(super) fn event(common: &AccessLogCommon, kind: EventKind, reason: Reason) -> Option<Event> {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).ok()?;
    Some(Event {
        kind,
        time_ns: seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).ok()?,
        first_ns: 0,
        source: socket(common.downstream_direct_remote_address.as_ref()?)?,
        destination: socket(common.downstream_local_address.as_ref()?)?,
        vip: None,
        protocol: TCP,
        bytes: [0; 2],
        packets: [0; 2],
        source_identity: 0,
        destination_identity: 0,
        rule: 0,
        audit: 0,
        service: 0,
        backend: 0,
        rtt_us: 0,
        retransmits: 0,
        burst_ns: 0,
        direction: Some(Direction::Ingress),
        allowed: kind == EventKind::Audited,
        reason,
        tcp_flags: 0,
        isn: 0,
        accelerated: false,
        proxied: true,
    })
}

pub(super) fn socket(address: &Address) -> Option<SocketAddr> {
    let Some(address::Address::SocketAddress(socket)) = &address.address else {
        return None;
    };
    let Some(PortSpecifier::PortValue(port)) = socket.port_specifier else {
        return None;
    };
    let ip = socket.address.parse().ok()?;
    Some(SocketAddr::new(ip, u16::try_from(port).ok()?))
}

/// Whoever asks may ask for anything.
fn short(text: &str) -> String {
    let shown = text.chars().filter(|c| !c.is_control());
    shown.take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use weft_proto::envoy::envoy::config::core::v3::SocketAddress;
    use weft_proto::envoy::envoy::data::accesslog::v3::{
        HttpRequestProperties, HttpResponseProperties,
    };
    use weft_proto::envoy::google::protobuf::{Struct, UInt32Value, Value};

    use super::*;

    fn address(ip: &str, port: u32) -> Option<Address> {
        Some(Address {
            address: Some(address::Address::SocketAddress(SocketAddress {
                address: ip.to_owned(),
                port_specifier: Some(PortSpecifier::PortValue(port)),
                ..Default::default()
            })),
        })
    }

    fn entry(status: u32, details: &str) -> HttpAccessLogEntry {
        HttpAccessLogEntry {
            common_properties: Some(AccessLogCommon {
                downstream_direct_remote_address: address("10.0.0.1", 40_000),
                downstream_local_address: address("10.0.0.2", 80),
                ..Default::default()
            }),
            request: Some(HttpRequestProperties {
                request_method: RequestMethod::Post.into(),
                authority: "shop".to_owned(),
                path: "/x\u{7}?secret=1".to_owned(),
                ..Default::default()
            }),
            response: Some(HttpResponseProperties {
                response_code: Some(UInt32Value { value: status }),
                response_code_details: details.to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn a_refusal_names_its_rule() {
        let refused = entry(403, "rbac_access_denied_matched_policy[shop/read|rules[0]]");
        let judged = judged(&refused).expect("a judgement");
        let rule = ("shop/read".to_owned(), "rules[0]".to_owned());
        assert_eq!(judged.rule, Some(rule));
        assert_eq!(judged.event.reason, Reason::REASON_POLICY);
        assert_eq!(
            (judged.request.method.as_str(), judged.request.path.as_str()),
            ("POST", "/x")
        );
        assert_eq!(judged.event.source.to_string(), "10.0.0.1:40000");
    }

    #[test]
    fn no_match_is_no_rule_and_others_answers_are_their_own() {
        let refused = entry(403, "rbac_access_denied_matched_policy[none]");
        let told = judged(&refused).expect("a judgement");
        assert_eq!(
            (told.rule, told.event.reason),
            (None, Reason::REASON_ISOLATED)
        );
        assert!(judged(&entry(403, "via_upstream")).is_none());
        let nowhere = HttpAccessLogEntry::default();
        assert!(judged(&nowhere).is_none());
    }

    #[test]
    fn an_audit_passes_and_is_told() {
        let mut passed = entry(200, "via_upstream");
        let text = |text: &str| Value {
            kind: Some(Kind::StringValue(text.to_owned())),
        };
        let said = Struct {
            fields: [
                ("allow_shadow_engine_result".to_owned(), text("allowed")),
                ("deny_shadow_engine_result".to_owned(), text("denied")),
                (
                    "deny_shadow_effective_policy_id".to_owned(),
                    text("shop/told|rules[1]"),
                ),
            ]
            .into(),
        };
        let common = passed.common_properties.as_mut().expect("set");
        common.metadata = Some(Metadata {
            filter_metadata: [(METADATA.to_owned(), said)].into(),
            ..Default::default()
        });
        let told = judged(&passed).expect("a judgement");
        assert_eq!(told.event.kind, EventKind::Audited);
        assert_eq!(
            told.rule,
            Some(("shop/told".to_owned(), "rules[1]".to_owned()))
        );
    }
}
