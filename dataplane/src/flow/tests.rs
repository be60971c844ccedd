use std::net::IpAddr;

use prometheus_client::registry::Registry;
use weft_proto::wire::flow::v1::{self as wire, Endpoint, Traffic};

use super::fake::{CART, FROM_WEB, Fake, NO_SSH, NODE, PROBE, SELECTED, VIP, WEB};
use super::*;

/// What `/metrics` says of what `register` registers.
pub(super) fn text(register: impl FnOnce(&mut Registry)) -> String {
    let mut registry = Registry::with_prefix("weft");
    register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("a string");
    text
}

pub(crate) fn event(kind: EventKind, reason: Reason) -> Event {
    Event {
        kind,
        time_ns: 5_000_000_000,
        first_ns: 0,
        source: (IpAddr::from(PROBE), 40_000).into(),
        destination: (IpAddr::from(CART), 8080).into(),
        vip: None,
        protocol: protocol::TCP,
        bytes: [0; 2],
        packets: [0; 2],
        source_identity: 17,
        destination_identity: 18,
        rule: 0,
        audit: 0,
        service: 0,
        backend: 0,
        rtt_us: 0,
        retransmits: 0,
        burst_ns: 0,
        direction: Some(Direction::Ingress),
        allowed: false,
        reason,
        tcp_flags: 0,
        isn: 0,
        accelerated: false,
        proxied: false,
    }
}

fn told(event: &Event) -> wire::Flow {
    let clock = Clock::fixed(1_800_000_000_000_000_000, 5_000_000_000);
    let named = Namer::default().name(*event, &Fake::new(), &clock);
    named.flow()
}

#[test]
fn a_flow_has_names_for_everything() {
    let event = Event {
        first_ns: 2_000_000_000,
        vip: Some((IpAddr::from(VIP), 80).into()),
        bytes: [1_300, 5_000_000],
        packets: [10, 4_000],
        rule: FROM_WEB,
        rtt_us: 210,
        direction: Some(Direction::Egress),
        ..event(EventKind::Close, Reason::REASON_FIN)
    };
    let expected = wire::Flow {
        time_unix_nano: 1_800_000_000_000_000_000,
        event: "close".into(),
        direction: "egress".into(),
        protocol: "tcp".into(),
        source: Some(Endpoint {
            address: "10.0.1.1".into(),
            port: 40_000,
            namespace: "default".into(),
            pod: "probe".into(),
            workload: "probe".into(),
            service_account: "default".into(),
            node: "n1".into(),
            identity: 17,
            identity_name: String::new(),
        }),
        destination: Some(Endpoint {
            address: "10.0.1.2".into(),
            port: 8080,
            namespace: "shop".into(),
            pod: "cart-7d9c5b8f6-x2x7k".into(),
            workload: "cart".into(),
            service_account: "default".into(),
            node: "n1".into(),
            identity: 18,
            identity_name: String::new(),
        }),
        service: "shop/cart".into(),
        service_address: "10.96.0.10:80".into(),
        verdict: "allowed".into(),
        reason: "fin".into(),
        policy: "NetworkPolicy shop/cart-ingress".into(),
        rule: "ingress[0]".into(),
        path: "kernel".into(),
        bytes: Some(Traffic {
            sent: 1_300,
            received: 5_000_000,
        }),
        packets: Some(Traffic {
            sent: 10,
            received: 4_000,
        }),
        duration_ms: 3_000,
        rtt_us: 210,
        retransmits: 0,
        tcp_flags: String::new(),
        message: "closed: TCP 8080 from default/probe to shop/cart-7d9c5b8f6-x2x7k: both ends closed it; \
                  1.3 KiB sent, 4.8 MiB received in 3.0s"
            .into(),
        request: None,
        accelerated: false,
    };
    assert_eq!(told(&event), expected);
}

#[test]
fn what_goes_to_envoy_is_said_to_whether_accelerated_or_not() {
    for (accelerated, proxied, path) in [
        (false, false, "kernel"),
        (true, false, "accelerated"),
        (false, true, "envoy"),
        (true, true, "envoy"),
    ] {
        let flow = told(&Event {
            accelerated,
            proxied,
            ..event(EventKind::Close, Reason::REASON_FIN)
        });
        assert_eq!((flow.path.as_str(), flow.accelerated), (path, accelerated));
    }
}

/// Each sentence as people read it.
#[test]
fn messages() {
    let denied = |reason| event(EventKind::Denied, reason);
    let cases = [
        (
            Event {
                rule: SELECTED,
                ..denied(Reason::REASON_ISOLATED)
            },
            "denied: NetworkPolicy shop/cart-ingress selects shop/cart-7d9c5b8f6-x2x7k and none of its rules lets \
             TCP 8080 from default/probe in",
        ),
        (
            Event {
                rule: SELECTED,
                direction: Some(Direction::Egress),
                ..denied(Reason::REASON_ISOLATED)
            },
            "denied: NetworkPolicy shop/cart-ingress selects default/probe and none of its rules lets TCP 8080 to \
             shop/cart-7d9c5b8f6-x2x7k out",
        ),
        (
            Event {
                rule: NO_SSH,
                ..denied(Reason::REASON_POLICY)
            },
            "denied: ClusterNetworkPolicy no-ssh, rule deny-22, refuses TCP 8080 from default/probe to \
             shop/cart-7d9c5b8f6-x2x7k",
        ),
        (
            denied(Reason::REASON_DEFAULT),
            "denied: no policy selects shop/cart-7d9c5b8f6-x2x7k, and this node refuses TCP 8080 from default/probe to \
             shop/cart-7d9c5b8f6-x2x7k by --default-policy",
        ),
        (
            Event {
                source: ([192, 0, 2, 1], 7).into(),
                destination: (IpAddr::from(WEB), 53).into(),
                protocol: protocol::UDP,
                ..denied(Reason::REASON_SPOOFED)
            },
            "denied: UDP 53 from 192.0.2.1 to shop/web-0: the source address is not the pod's own",
        ),
        (
            Event {
                source: (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
                destination: (IpAddr::from(VIP), 80).into(),
                vip: Some((IpAddr::from(VIP), 80).into()),
                ..denied(Reason::REASON_NO_BACKEND)
            },
            "denied: TCP 80 to 10.96.0.10: the service has no backend that takes connections",
        ),
        (
            Event {
                rule: 99,
                ..denied(Reason::REASON_POLICY)
            },
            "denied: a policy that is gone (#00000063) refuses TCP 8080 from default/probe to shop/cart-7d9c5b8f6-x2x7k",
        ),
        (
            Event {
                audit: NO_SSH,
                rule: FROM_WEB,
                ..event(EventKind::Audited, Reason::REASON_POLICY)
            },
            "audited: TCP 8080 from default/probe to shop/cart-7d9c5b8f6-x2x7k passes, and would be refused by \
             ClusterNetworkPolicy no-ssh, rule deny-22, were it not in audit mode",
        ),
        (
            Event {
                source: (IpAddr::from(NODE), 40_000).into(),
                ..event(EventKind::Open, Reason::REASON_HOST)
            },
            "open: TCP 8080 from node n1 to shop/cart-7d9c5b8f6-x2x7k: a node may always talk to its own pods, and \
             they to it",
        ),
        (
            Event {
                retransmits: 3,
                burst_ns: 5_000_000_000,
                time_ns: 5_250_000_000,
                ..event(EventKind::Retransmitted, Reason::REASON_NONE)
            },
            "sent again: TCP 8080 from default/probe to shop/cart-7d9c5b8f6-x2x7k: 3 segments within 250.0ms",
        ),
        (
            Event {
                service: 7,
                ..event(EventKind::Ejected, Reason::REASON_CONNECT_TIMEOUT)
            },
            "ejected: shop/cart sends no new connections to 10.0.1.2:8080: the backend did not answer within \
             timeouts.connect",
        ),
        (
            Event {
                service: 7,
                ..event(EventKind::Returned, Reason::REASON_NONE)
            },
            "returned: shop/cart sends connections to 10.0.1.2:8080 again",
        ),
    ];
    for (event, expected) in cases {
        assert_eq!(told(&event).message, expected);
    }
}

#[test]
fn what_goes_to_envoy_still_has_its_services_address() {
    let to_envoy = Event {
        destination: (IpAddr::from(VIP), 80).into(),
        proxied: true,
        direction: Some(Direction::Egress),
        ..event(EventKind::Open, Reason::REASON_PROXY)
    };
    assert_eq!(told(&to_envoy).service, "shop/cart");
    let by_envoy = Event {
        destination: (IpAddr::from(CART), 8080).into(),
        ..to_envoy
    };
    assert_eq!(told(&by_envoy).service, "");
}
