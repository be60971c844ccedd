//! One sentence for people about what happened.

use std::time::Duration;

use weft_proto::wire::flow::v1 as wire;

use super::{Direction, Event, EventKind, Reason, protocol};

/// Whom a sentence is about.
pub(crate) struct Ends<'a> {
    pub(crate) source: &'a wire::Endpoint,
    pub(crate) destination: &'a wire::Endpoint,
    pub(crate) protocol: u8,
}

/// Who decided and why, for [`verdict`].
pub(crate) struct Decision<'a> {
    pub(crate) reason: Reason,
    pub(crate) direction: Option<Direction>,
    /// "NetworkPolicy shop/cart"; empty: no object did.
    pub(crate) policy: &'a str,
    /// Which of its rules; empty: none did.
    pub(crate) rule: &'a str,
}

/// The sentence of an event whose names are in `flow`.
pub(super) fn of_event(event: &Event, flow: &wire::Flow) -> String {
    let nobody = wire::Endpoint::default();
    let ends = Ends {
        source: flow.source.as_ref().unwrap_or(&nobody),
        destination: flow.destination.as_ref().unwrap_or(&nobody),
        protocol: event.protocol,
    };
    let decision = Decision {
        reason: event.reason,
        direction: event.direction,
        policy: &flow.policy,
        rule: &flow.rule,
    };
    match event.kind {
        EventKind::Denied | EventKind::Audited if flow.request.is_some() => {
            judged_request(event.kind, &ends, &decision, flow)
        }
        EventKind::Denied => format!("denied: {}", denied(&ends, &decision)),
        EventKind::Audited => format!(
            "audited: {} passes, and would be refused by {} were it not in audit mode",
            ends.traffic(),
            decider(&decision),
        ),
        EventKind::Open => format!("open: {}{}", ends.traffic(), allowed_by(&decision)),
        EventKind::Close => format!("closed: {}: {}", ends.traffic(), ended(event)),
        EventKind::Expired => format!("expired: {}: {}", ends.traffic(), ended(event)),
        EventKind::Retransmitted => format!("sent again: {}: {}", ends.traffic(), burst(event)),
        EventKind::Ejected | EventKind::Returned => backend(event, flow),
    }
}

/// "denied: POST /x from shop/a to shop/b: AuthorizationPolicy shop/read, rule rules[0], refuses it"
fn judged_request(
    kind: EventKind,
    ends: &Ends<'_>,
    decision: &Decision<'_>,
    flow: &wire::Flow,
) -> String {
    let nothing = wire::HttpRequest::default();
    let request = flow.request.as_ref().unwrap_or(&nothing);
    let (source, destination) = (name(ends.source), name(ends.destination));
    let asked = format!(
        "{} {} from {source} to {destination}",
        request.method, request.path
    );
    let why = match (decision.reason, decision.policy) {
        (Reason::REASON_ISOLATED, "") => "no rule lets it in".to_owned(),
        (Reason::REASON_ISOLATED, policy) => {
            format!("{policy} selects {destination} and no rule lets it in")
        }
        _ => format!("{} refuses it", decider(decision)),
    };
    match kind {
        EventKind::Audited => format!("audited: {asked} passes, in audit mode: {why}"),
        _ => format!("denied: {asked}: {why}"),
    }
}

/// Why it is refused, without the word itself.
pub(crate) fn denied(ends: &Ends<'_>, decision: &Decision<'_>) -> String {
    match decision.reason {
        Reason::REASON_ISOLATED => isolated(ends, decision),
        Reason::REASON_POLICY => format!("{} refuses {}", decider(decision), ends.traffic()),
        Reason::REASON_LAYER7 => format!(
            "{} asks for something that only a proxy can see, and no Envoy judges {}",
            decider(decision),
            ends.traffic()
        ),
        Reason::REASON_DEFAULT => format!(
            "no policy selects {}, and this node refuses {} by --default-policy",
            ends.judged(decision.direction),
            ends.traffic()
        ),
        reason => format!("{}: {}", ends.traffic(), reason.clause()),
    }
}

/// Who is asked instead of the kernel.
pub(crate) fn left_to_proxy(ends: &Ends<'_>, decision: &Decision<'_>) -> String {
    format!(
        "{} asks about requests: the Envoy of the node of {} judges each of them",
        decider(decision),
        name(ends.destination)
    )
}

/// What lets it through at one end.
pub(crate) fn allowed(ends: &Ends<'_>, decision: &Decision<'_>) -> String {
    let way = match decision.direction {
        Some(Direction::Egress) => "out",
        _ => "in",
    };
    match (decision.policy, decision.reason) {
        ("", Reason::REASON_DEFAULT) => {
            format!("no policy selects {}", ends.judged(decision.direction))
        }
        ("", reason) => reason.clause().to_owned(),
        _ => format!("{} lets it {way}", decider(decision)),
    }
}

/// "NetworkPolicy shop/cart selects shop/cart-0 and none of its rules lets TCP 8080 from default/probe in"
fn isolated(ends: &Ends<'_>, decision: &Decision<'_>) -> String {
    let (select, its) = match decision.policy {
        "" => ("policies select".to_owned(), "their"),
        policy => (format!("{policy} selects"), "its"),
    };
    let wanted = protocol::with_port(ends.protocol, ends.port());
    let judged = ends.judged(decision.direction);
    match decision.direction {
        Some(Direction::Egress) => {
            let to = name(ends.destination);
            format!("{select} {judged} and none of {its} rules lets {wanted} to {to} out")
        }
        _ => {
            let from = name(ends.source);
            format!("{select} {judged} and none of {its} rules lets {wanted} from {from} in")
        }
    }
}

/// ", by NetworkPolicy shop/cart, rule web"; empty where no object decided.
pub(crate) fn allowed_by(decision: &Decision<'_>) -> String {
    match (decision.policy, decision.reason) {
        ("", Reason::REASON_NONE) => String::new(),
        ("", reason) => format!(": {}", reason.clause()),
        _ => format!(", by {}", decider(decision)),
    }
}

fn decider(decision: &Decision<'_>) -> String {
    match (decision.policy, decision.rule) {
        ("", "") => "a policy".to_owned(),
        ("", rule) => format!("a policy that is gone ({rule})"),
        (policy, "") => policy.to_owned(),
        (policy, rule) => format!("{policy}, rule {rule},"),
    }
}

fn ended(event: &Event) -> String {
    let [sent, received] = event.bytes.map(bytes);
    let clause = event.reason.clause();
    match event.first_ns {
        0 => format!("{clause}; {sent} sent, {received} received"),
        first => {
            let took = Duration::from_nanos(event.time_ns.saturating_sub(first));
            format!("{clause}; {sent} sent, {received} received in {took:.1?}")
        }
    }
}

fn burst(event: &Event) -> String {
    let took = Duration::from_nanos(event.time_ns.saturating_sub(event.burst_ns));
    match event.retransmits {
        1 => "1 segment".to_owned(),
        count => format!("{count} segments within {took:.1?}"),
    }
}

fn backend(event: &Event, flow: &wire::Flow) -> String {
    let service = match flow.service.as_str() {
        "" => "its service".to_owned(),
        name => name.to_owned(),
    };
    let at = event.destination;
    match event.kind {
        EventKind::Ejected => {
            let why = event.reason.clause();
            format!("ejected: {service} sends no new connections to {at}: {why}")
        }
        _ => format!("returned: {service} sends connections to {at} again"),
    }
}

/// For people: 812 B, 1.2 KiB, 3.0 GiB.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    // Tenths are all that is shown: precision beyond 2^53 does not matter.
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// "namespace/pod", "node NAME", or the address.
pub(crate) fn name(endpoint: &wire::Endpoint) -> String {
    match (endpoint.pod.as_str(), endpoint.workload.as_str()) {
        ("", "") => endpoint.address.clone(),
        ("", node) => format!("node {node}"),
        (pod, _) => format!("{}/{pod}", endpoint.namespace),
    }
}

impl Ends<'_> {
    fn port(&self) -> u16 {
        u16::try_from(self.destination.port).unwrap_or_default()
    }

    /// "TCP 8080 from default/probe to shop/cart", without "from" where that is not known.
    pub(crate) fn traffic(&self) -> String {
        let wanted = protocol::with_port(self.protocol, self.port());
        let to = name(self.destination);
        match name(self.source).as_str() {
            "" => format!("{wanted} to {to}"),
            from => format!("{wanted} from {from} to {to}"),
        }
    }

    fn judged(&self, direction: Option<Direction>) -> String {
        match direction {
            Some(Direction::Egress) => name(self.source),
            _ => name(self.destination),
        }
    }
}
