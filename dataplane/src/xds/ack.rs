//! The error text of a NACK.

use weft_proto::envoy::google::rpc::Status;

use crate::engine::Rejection;

/// `google.rpc.Code.INVALID_ARGUMENT`
const INVALID_ARGUMENT: i32 = 3;
/// Servers log these texts, and some refuse large requests.
const LONGEST: usize = 8 << 10;

/// `None` when nothing was rejected.
pub(super) fn error_detail(rejected: &[Rejection]) -> Option<Status> {
    if rejected.is_empty() {
        return None;
    }
    let mut message = String::new();
    for (told, rejection) in rejected.iter().enumerate() {
        let one = format!("{}: {}", rejection.name, rejection.reason);
        if !message.is_empty() && message.len() + one.len() > LONGEST {
            message.push_str(&format!("; and {} more", rejected.len() - told));
            break;
        }
        if told > 0 {
            message.push_str("; ");
        }
        message.push_str(&one);
    }
    Some(Status {
        code: INVALID_ARGUMENT,
        message,
        details: Vec::new(),
    })
}
