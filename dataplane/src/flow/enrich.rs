//! Events in words.

use std::net::{IpAddr, SocketAddr};

use weft_proto::model::WorkloadKind;
use weft_proto::wire::flow::v1 as wire;

use super::event::is_unset;
use super::names::{object, shown};
use super::{Direction, Event, EventKind, NamedEvent, Names, message, owner, protocol};

const NANOS_PER_MILLI: u64 = 1_000_000;

impl NamedEvent {
    /// allowed, denied, audited, or nothing.
    pub(crate) const fn verdict(&self) -> &'static str {
        verdict(self.event.kind)
    }

    /// Which way its packets take.
    pub(crate) fn path(&self) -> &'static str {
        path(&self.event)
    }

    /// All of it, for people and programs.
    #[must_use]
    pub fn flow(&self) -> wire::Flow {
        let event = &self.event;
        let end = |named: &wire::Endpoint, at: SocketAddr| wire::Endpoint {
            port: at.port().into(),
            ..named.clone()
        };
        let mut flow = wire::Flow {
            time_unix_nano: self.time_unix_nano,
            event: event.kind.word().to_owned(),
            direction: event.direction.map_or("", Direction::word).to_owned(),
            protocol: protocol::word(event.protocol),
            // A socket has no address yet when connect() refuses it.
            source: (!is_unset(event.source.ip())).then(|| end(&self.source, event.source)),
            destination: Some(end(&self.destination, event.destination)),
            service: self.service.to_string(),
            service_address: event.vip.map_or_else(String::new, |vip| vip.to_string()),
            verdict: verdict(event.kind).to_owned(),
            reason: event.reason.word().to_owned(),
            policy: self.decider.policy.clone(),
            rule: self.decider.rule.clone(),
            path: path(event).to_owned(),
            bytes: Some(traffic(event.bytes)),
            packets: Some(traffic(event.packets)),
            duration_ms: duration_ms(event),
            rtt_us: event.rtt_us,
            retransmits: event.retransmits,
            tcp_flags: protocol::tcp_flags(event.tcp_flags),
            message: String::new(),
            request: self.request.as_deref().map(|request| wire::HttpRequest {
                method: request.method.clone(),
                authority: request.authority.clone(),
                path: request.path.clone(),
                status: request.status.into(),
            }),
            accelerated: event.accelerated,
        };
        flow.message = message::of_event(event, &flow);
        flow
    }
}

/// An end of a connection. Policies know its identity, workloads its names.
pub(crate) fn endpoint(at: SocketAddr, identity: u32, names: &dyn Names) -> wire::Endpoint {
    let mut endpoint = wire::Endpoint {
        address: at.ip().to_string(),
        port: at.port().into(),
        identity,
        identity_name: shown(&names.identity(identity).unwrap_or_default()),
        ..Default::default()
    };
    add_workload(&mut endpoint, at.ip(), names);
    endpoint
}

fn add_workload(endpoint: &mut wire::Endpoint, address: IpAddr, names: &dyn Names) {
    let Some(workload) = names.workload(address) else {
        return;
    };
    endpoint.node = shown(&workload.node);
    match workload.kind {
        WorkloadKind::Pod => {
            // "pod/<namespace>/<name>"
            let pod = workload.name.rsplit('/').next().unwrap_or_default();
            endpoint.pod = shown(pod);
            endpoint.namespace = shown(&workload.namespace);
            endpoint.service_account = shown(&workload.service_account);
            endpoint.workload = shown(&owner::owner(workload, pod));
        }
        WorkloadKind::Node => endpoint.workload = shown(&workload.node),
    }
}

/// Where a service may be that was asked for: what goes to Envoy still has the service's address.
pub(super) fn asked_for(event: &Event) -> Option<SocketAddr> {
    event.vip.or(event.proxied.then_some(event.destination))
}

pub(super) fn service(event: &Event, names: &dyn Names) -> String {
    let by_address = asked_for(event).and_then(|vip| names.service_at(vip, event.protocol));
    let name = by_address.or_else(|| names.service(event.service));
    shown(&name.unwrap_or_default())
}

/// The deciding object and its rule: what a reader has to look at next.
pub(super) fn policy(id: u32, names: &dyn Names) -> (String, String) {
    match names.rule(id) {
        Some(name) => (shown(&object(&name.object)), shown(&name.rule)),
        None if id == 0 => Default::default(),
        // Forgotten meanwhile: the id at least tells it from others.
        None => (String::new(), format!("#{id:08x}")),
    }
}

pub(super) const fn verdict(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Denied => "denied",
        EventKind::Audited => "audited",
        EventKind::Open | EventKind::Close | EventKind::Expired | EventKind::Retransmitted => {
            "allowed"
        }
        // Of backends, not of connections.
        EventKind::Ejected | EventKind::Returned => "",
    }
}

const fn path(event: &Event) -> &'static str {
    match event.kind {
        EventKind::Ejected | EventKind::Returned => "",
        _ if event.proxied => "envoy",
        _ if event.accelerated => "accelerated",
        _ => "kernel",
    }
}

pub(crate) const fn traffic([sent, received]: [u64; 2]) -> wire::Traffic {
    wire::Traffic { sent, received }
}

const fn duration_ms(event: &Event) -> u64 {
    match event.first_ns {
        0 => 0,
        first => event.time_ns.saturating_sub(first) / NANOS_PER_MILLI,
    }
}
