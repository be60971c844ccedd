//! What the kernel said, grouped and in words.

use weft_proto::model::{Workload, WorkloadKind};
use weft_proto::wire::admin::v1 as wire;
use weft_proto::wire::flow::v1::Endpoint;

use super::{Directory, Judged, Judgement, Packet};
use crate::flow::{Decision, Direction, Ends, Reason, endpoint, message, object, protocol};

const ALLOWED: &str = "allowed";
const DENIED: &str = "denied";
/// The node's Envoy does, request by request.
const ENVOY: &str = "envoy";
/// Another node decides.
const ELSEWHERE: &str = "elsewhere";
/// Nobody does.
const NOBODY: &str = "none";

/// A packet and what the kernel says to it.
pub(super) struct Case<'a> {
    pub(super) packet: Packet,
    /// "namespace/name"; empty: none was asked for.
    pub(super) service: &'a str,
    pub(super) judged: Judged,
}

/// `empty`: services that have no backend; `by_proxy`: those that pods reach through Envoy.
pub(super) fn reply(
    cases: &[Case<'_>],
    empty: &[&str],
    by_proxy: &[&str],
    directory: &dyn Directory,
) -> wire::CheckReply {
    let mut groups: Vec<(wire::Answer, &Case<'_>)> = Vec::new();
    for case in cases {
        let answer = answer(case, directory);
        match groups
            .iter_mut()
            .find(|(other, _)| is_alike(other, &answer))
        {
            Some((other, _)) => other.destinations.extend(answer.destinations),
            None => groups.push((answer, case)),
        }
    }
    let explained = groups
        .into_iter()
        .map(|(answer, case)| explain(answer, case, directory));
    let refused = empty.iter().map(|service| no_backend(service));
    let handed_over = by_proxy.iter().map(|service| via_envoy(service));
    let answers: Vec<wire::Answer> = explained.chain(refused).chain(handed_over).collect();
    wire::CheckReply {
        verdict: overall(&answers).to_owned(),
        hints: hints(&answers),
        answers,
    }
}

/// Same protocol and port, same decisions for the same reasons: backends of a service, or both families of a pod.
fn is_alike(a: &wire::Answer, b: &wire::Answer) -> bool {
    let port = |answer: &wire::Answer| answer.destinations.first().map(|d| d.port);
    let source = |answer: &wire::Answer| answer.source.as_ref().map(message::name);
    a.protocol == b.protocol
        && a.service == b.service
        && port(a) == port(b)
        && source(a) == source(b)
        && a.egress == b.egress
        && a.ingress == b.ingress
}

fn answer(case: &Case<'_>, directory: &dyn Directory) -> wire::Answer {
    let Packet {
        source,
        destination,
        protocol,
    } = case.packet;
    let egress = side(case, Direction::Egress, directory);
    let ingress = side(case, Direction::Ingress, directory);
    let denied = [&egress, &ingress].iter().any(|s| s.verdict == DENIED);
    let by_proxy = ingress.verdict == ENVOY && !denied;
    wire::Answer {
        source: Some(endpoint(source, case.judged.source_identity, directory)),
        destinations: vec![endpoint(
            destination,
            case.judged.destination_identity,
            directory,
        )],
        // Both families of ICMP are one to policies.
        protocol: match protocol {
            protocol::ICMPV6 => protocol::word(protocol::ICMP),
            other => protocol::word(other),
        },
        service: case.service.to_owned(),
        verdict: if denied { DENIED } else { ALLOWED }.to_owned(),
        path: if by_proxy { "envoy" } else { "kernel" }.to_owned(),
        egress: Some(egress),
        ingress: Some(ingress),
        message: String::new(),
    }
}

/// What one end says, without its sentence.
fn side(case: &Case<'_>, direction: Direction, directory: &dyn Directory) -> wire::Side {
    let (judgement, end) = match direction {
        Direction::Egress => (case.judged.egress, case.packet.source),
        Direction::Ingress => (case.judged.ingress, case.packet.destination),
    };
    let workload = directory.workload(end.ip());
    let Some(judgement) = judgement else {
        return unjudged(workload, directory);
    };
    let (policy, rule) = directory
        .rule(judgement.rule)
        .map_or_else(Default::default, |name| (object(&name.object), name.rule));
    let audit = directory.rule(judgement.audit);
    wire::Side {
        verdict: match (judgement.allowed, judgement.by_proxy) {
            (true, true) => ENVOY,
            (true, false) => ALLOWED,
            (false, _) => DENIED,
        }
        .to_owned(),
        reason: judgement.reason.word().to_owned(),
        policy,
        rule,
        audit_policy: audit.map_or_else(String::new, |name| object(&name.object)),
        node: directory.node().to_owned(),
        message: String::new(),
    }
}

/// An end whose policies this node does not have.
fn unjudged(workload: Option<&Workload>, directory: &dyn Directory) -> wire::Side {
    let pod = workload.filter(|w| w.kind == WorkloadKind::Pod && !w.host_network);
    let (verdict, node) = match pod {
        Some(pod) if pod.node != directory.node() => (ELSEWHERE, pod.node.as_str()),
        Some(pod) => (NOBODY, pod.node.as_str()),
        None => (NOBODY, ""),
    };
    wire::Side {
        verdict: verdict.to_owned(),
        node: node.to_owned(),
        ..Default::default()
    }
}

/// Adds the sentences. They name all destinations of the group, so they can be written only when it is whole.
fn explain(mut answer: wire::Answer, case: &Case<'_>, directory: &dyn Directory) -> wire::Answer {
    let source = answer.source.clone().unwrap_or_default();
    let destination = together(&answer.destinations);
    let ends = Ends {
        source: &source,
        destination: &destination,
        protocol: case.packet.protocol,
    };
    let sides = [
        (&mut answer.egress, Direction::Egress, case.judged.egress),
        (&mut answer.ingress, Direction::Ingress, case.judged.ingress),
    ];
    for (side, direction, judgement) in sides {
        let Some(side) = side else { continue };
        side.message = match judgement {
            Some(judgement) => judged(&ends, direction, &judgement, side),
            None => absent(&ends, direction, side, directory),
        };
    }
    answer.message = sentence(&answer);
    answer
}

/// One end that stands for all: "shop/web-1, shop/web-2 and 3 more".
fn together(destinations: &[Endpoint]) -> Endpoint {
    let first = destinations.first().cloned().unwrap_or_default();
    let mut names: Vec<String> = destinations.iter().map(message::name).collect();
    names.sort_unstable();
    names.dedup();
    let text = match names.as_slice() {
        [] | [_] => return first,
        [a, b] => format!("{a} and {b}"),
        [a, b, more @ ..] => format!("{a}, {b} and {} more", more.len()),
    };
    Endpoint {
        address: text,
        port: first.port,
        ..Default::default()
    }
}

fn judged(
    ends: &Ends<'_>,
    direction: Direction,
    judgement: &Judgement,
    side: &wire::Side,
) -> String {
    let decision = Decision {
        reason: judgement.reason,
        direction: Some(direction),
        policy: &side.policy,
        rule: &side.rule,
    };
    let text = if judgement.by_proxy {
        message::left_to_proxy(ends, &decision)
    } else if judgement.allowed {
        message::allowed(ends, &decision)
    } else {
        message::denied(ends, &decision)
    };
    match side.audit_policy.as_str() {
        "" => text,
        audited => format!("{text}; {audited} would refuse it, but is in audit mode"),
    }
}

fn absent(
    ends: &Ends<'_>,
    direction: Direction,
    side: &wire::Side,
    directory: &dyn Directory,
) -> String {
    let (end, way) = match direction {
        Direction::Egress => (ends.source, "out"),
        Direction::Ingress => (ends.destination, "in"),
    };
    let name = message::name(end);
    let address = end.address.parse().ok();
    let pod = address.and_then(|address| directory.workload(address));
    if side.verdict == NOBODY && pod.is_some_and(|pod| pod.out_of_mesh) {
        return format!("{name} is out of the mesh (weft.io/mesh: disabled), so nothing judges it");
    }
    match (side.verdict.as_str(), side.node.as_str()) {
        (ELSEWHERE, node) => format!("node {node} decides what {name} lets {way}"),
        (_, node) if node == directory.node() => {
            format!("the interface of {name} is not found, so nothing judges it there")
        }
        _ => format!("{name} is no pod with an address of its own, so no policy selects it"),
    }
}

fn sentence(answer: &wire::Answer) -> String {
    let sides = [&answer.egress, &answer.ingress];
    let refusing = sides
        .into_iter()
        .flatten()
        .find(|side| side.verdict == DENIED);
    if let Some(side) = refusing {
        return format!("denied: {}", side.message);
    }
    let all: Vec<&str> = sides
        .into_iter()
        .flatten()
        .map(|side| side.message.as_str())
        .collect();
    let verdict = match answer.path.as_str() {
        "envoy" => "via Envoy",
        _ => ALLOWED,
    };
    format!("{verdict}: {}", all.join("; "))
}

fn no_backend(service: &str) -> wire::Answer {
    let reason = Reason::REASON_NO_BACKEND;
    wire::Answer {
        service: service.to_owned(),
        verdict: DENIED.to_owned(),
        path: "kernel".to_owned(),
        message: format!("denied: {service}: {}", reason.clause()),
        egress: Some(wire::Side {
            verdict: DENIED.to_owned(),
            reason: reason.word().to_owned(),
            message: reason.clause().to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Who is asked there depends on the request.
fn via_envoy(service: &str) -> wire::Answer {
    wire::Answer {
        service: service.to_owned(),
        verdict: ALLOWED.to_owned(),
        path: "envoy".to_owned(),
        message: format!(
            "via Envoy: requests to {service} go to the node's Envoy, and its routes choose a backend; whether the connection that it opens in the client's name is let through, tells `weft check` with that backend's pod"
        ),
        ..Default::default()
    }
}

fn overall(answers: &[wire::Answer]) -> &'static str {
    let denied = answers.iter().filter(|a| a.verdict == DENIED).count();
    match denied {
        0 => ALLOWED,
        all if all == answers.len() => DENIED,
        _ => "mixed",
    }
}

fn hints(answers: &[wire::Answer]) -> Vec<String> {
    let sides = answers.iter().flat_map(|a| [&a.egress, &a.ingress]);
    let mut nodes: Vec<&str> = sides
        .flatten()
        .filter(|side| side.verdict == ELSEWHERE)
        .map(|side| side.node.as_str())
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
        .into_iter()
        .map(|node| format!("node {node} has its own say: ask the same there"))
        .collect()
}
