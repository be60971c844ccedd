//! `weft check`.

use weft_proto::wire::admin::v1::{Answer, CheckReply, Side};
use weft_proto::wire::flow::v1::Endpoint;

use super::flows::end;

/// The answers, and what another node has to be asked.
pub(crate) fn check(reply: &CheckReply) -> String {
    let mut text = String::new();
    for answer in &reply.answers {
        text.push_str(&format!("{}\n", answer.message));
        text.push_str(&ends(answer));
        for (name, side) in [("egress", &answer.egress), ("ingress", &answer.ingress)] {
            if let Some(side) = side {
                text.push_str(&format!("  {name:<8} {}\n", one_side(side)));
            }
        }
    }
    for hint in &reply.hints {
        text.push_str(&format!("note: {hint}\n"));
    }
    text
}

fn ends(answer: &Answer) -> String {
    let mut text = String::new();
    if answer.source.is_some() {
        let source = source(answer.source.as_ref());
        text.push_str(&format!("  from     {source}\n"));
    }
    for destination in &answer.destinations {
        let to = end(Some(destination));
        let at = address(destination);
        text.push_str(&format!("  to       {to}/{}{at}\n", answer.protocol));
    }
    text
}

/// Without its port, which stands for any that a client may have.
fn source(source: Option<&Endpoint>) -> String {
    let source = Endpoint {
        port: 0,
        ..source.cloned().unwrap_or_default()
    };
    format!("{}{}", end(Some(&source)), address(&source))
}

/// Where the name does not say it.
fn address(endpoint: &Endpoint) -> String {
    match endpoint.pod.as_str() {
        "" => String::new(),
        _ => format!(", {}", endpoint.address),
    }
}

fn one_side(side: &Side) -> String {
    match (side.verdict.as_str(), side.reason.as_str()) {
        ("none", _) => format!("not judged: {}", side.message),
        ("elsewhere", _) => format!("not judged here: {}", side.message),
        (verdict, reason) => format!("{verdict} ({reason}): {}", side.message),
    }
}
