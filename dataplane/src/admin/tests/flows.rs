//! Flows, connections and answers, over the socket.

use std::net::{IpAddr, SocketAddr};

use weft_proto::wire::admin::v1::flow_item::Item;
use weft_proto::wire::flow::v1::Flow;

use super::*;
use crate::check::{Judged, Judgement, Packet};
use crate::conntrack::{Connection, State};
use crate::flow::{Direction, Event, EventKind, NamedEvent, Reason};

/// The cart of [`fill`].
const CART: [u8; 4] = [10, 0, 0, 1];
const OUTSIDE: [u8; 4] = [192, 0, 2, 1];

/// Nothing is let in but on port 8080.
pub(super) fn judge(packet: &Packet) -> Judged {
    let allowed = packet.destination.port() == 8080;
    let ingress = Judgement {
        by_proxy: false,
        allowed,
        reason: Reason::REASON_DEFAULT,
        rule: 0,
        audit: 0,
    };
    Judged {
        source_identity: 1,
        destination_identity: 16,
        egress: None,
        ingress: Some(ingress),
    }
}

fn event(kind: EventKind, port: u16) -> Event {
    Event {
        kind,
        time_ns: 1,
        first_ns: 0,
        source: (IpAddr::from(OUTSIDE), 40_000).into(),
        destination: (IpAddr::from(CART), port).into(),
        vip: None,
        protocol: 6,
        bytes: [60, 0],
        packets: [1, 0],
        source_identity: 1,
        destination_identity: 16,
        rule: 0,
        audit: 0,
        service: 0,
        backend: 0,
        rtt_us: 0,
        retransmits: 0,
        burst_ns: 0,
        direction: Some(Direction::Ingress),
        allowed: kind == EventKind::Open,
        reason: Reason::REASON_DEFAULT,
        tcp_flags: 2,
        isn: 0,
        accelerated: false,
        proxied: false,
    }
}

struct Served {
    agent: Agent,
    client: weft_proto::wire::admin::v1::admin_client::AdminClient<tonic::transport::Channel>,
    _run: RunDir,
    _dir: tempfile::TempDir,
}

async fn served() -> Served {
    let dir = tempfile::tempdir().expect("a directory");
    let run = RunDir::lock(dir.path()).expect("free");
    let agent = agent();
    let listener = run.listen().expect("socket");
    tokio::spawn(serve(agent.admin.clone(), listener, agent.drain.clone()));
    fill(&agent.admin.engine).await;
    let client = connect(dir.path()).await.expect("an agent");
    Served {
        agent,
        client,
        _run: run,
        _dir: dir,
    }
}

fn remembered(served: &Served) -> Vec<NamedEvent> {
    let all = served.agent.admin.observed.log.snapshot();
    all.iter().flat_map(|some| some.iter().cloned()).collect()
}

fn flow(item: wire::FlowItem) -> Flow {
    match item.item {
        Some(Item::Flow(flow)) => flow,
        other => panic!("{other:?}"),
    }
}

async fn ports(served: &mut Served, request: wire::ListFlowsRequest) -> Vec<u32> {
    let listed = served.client.list_flows(request).await.expect("answer");
    let flows = all(listed.into_inner()).await.into_iter().map(flow);
    flows.map(|f| f.destination.expect("an end").port).collect()
}

fn to(to: &str, verdict: &str) -> Option<wire::FlowFilter> {
    Some(wire::FlowFilter {
        to: to.into(),
        verdict: verdict.into(),
        ..Default::default()
    })
}

#[tokio::test]
async fn flows_are_remembered_filtered_and_followed() {
    let mut served = served().await;
    for (kind, port) in [
        (EventKind::Denied, 1),
        (EventKind::Open, 2),
        (EventKind::Denied, 3),
    ] {
        served.agent.kernel.emit(event(kind, port));
    }
    let follow = wire::ListFlowsRequest {
        filter: to("shop/cart-0", "denied"),
        last: Some(1),
        follow: true,
        ..Default::default()
    };
    while remembered(&served).len() < 3 {
        tokio::task::yield_now().await;
    }
    let all = wire::ListFlowsRequest::default();
    assert_eq!(ports(&mut served, all).await, [1, 2, 3]);
    let last = wire::ListFlowsRequest {
        last: Some(2),
        ..Default::default()
    };
    assert_eq!(ports(&mut served, last).await, [2, 3]);
    let denied = wire::ListFlowsRequest {
        filter: to("10.0.0.0/8", "denied"),
        ..Default::default()
    };
    assert_eq!(ports(&mut served, denied).await, [1, 3]);

    // Nothing is newer than the newest.
    let times = remembered(&served);
    let since = wire::ListFlowsRequest {
        since_unix_nano: times.iter().map(|t| t.time_unix_nano).max().expect("some") + 1,
        ..Default::default()
    };
    assert!(ports(&mut served, since).await.is_empty());
    let since = wire::ListFlowsRequest {
        since_unix_nano: times.iter().map(|t| t.time_unix_nano).min().expect("some"),
        ..Default::default()
    };
    assert_eq!(ports(&mut served, since).await.first(), Some(&1));

    let followed = served.client.list_flows(follow).await.expect("answer");
    let mut followed = followed.into_inner();
    let mut next = async || flow(followed.message().await.expect("open").expect("no end"));
    let third = next().await;
    assert_eq!(third.destination.as_ref().expect("an end").port, 3);
    assert_eq!(
        third.message,
        "denied: no policy selects shop/cart-0, and this node refuses TCP 3 from 192.0.2.1 to shop/cart-0 by \
         --default-policy"
    );
    served.agent.kernel.emit(event(EventKind::Open, 4));
    served.agent.kernel.emit(event(EventKind::Denied, 5));
    assert_eq!(next().await.destination.expect("an end").port, 5);

    let nonsense = wire::ListFlowsRequest {
        filter: to("10.0.0.0/99", ""),
        ..Default::default()
    };
    let refused = served.client.list_flows(nonsense).await;
    let refused = refused.expect_err("nonsense");
    assert!(refused.message().contains("10.0.0.0/99"), "{refused}");
}

/// One that is open, from OUTSIDE.
fn connection(port: u16) -> Connection {
    Connection {
        source: (IpAddr::from(OUTSIDE), port).into(),
        destination: (IpAddr::from(CART), 8080).into(),
        protocol: 6,
        state: State::Established,
        first_ns: 0,
        last_ns: 0,
        bytes: [1, 2],
        packets: [3, 4],
        identity: [1, 16],
        epoch: [0, 1],
        rule: [0, 0],
        service: 0,
        idle_s: 0,
        lifetime_s: 0,
        rtt_us: 5,
        retransmits: 0,
        reason: Reason::REASON_DEFAULT,
        picked_up: false,
    }
}

#[tokio::test]
async fn connections_have_names_and_all_are_listed() {
    let mut served = served().await;
    let connections: Vec<_> = (1..=2_000).map(connection).collect();
    served.agent.kernel.set_connections(connections);
    let request = wire::ListConntrackRequest::default();
    let listed = served.client.list_conntrack(request).await.expect("answer");
    let rows = all(listed.into_inner()).await;
    assert_eq!(rows.len(), 2_000);
    let row = rows.first().expect("some");
    let destination = row.destination.as_ref().expect("an end");
    assert_eq!(
        (destination.pod.as_str(), row.state.as_str()),
        ("cart-0", "established")
    );
    assert_eq!(row.bytes.expect("bytes").received, 2);
    let request = wire::ListConntrackRequest {
        from: "10.0.0.0/8".into(),
        ..Default::default()
    };
    let listed = served.client.list_conntrack(request).await.expect("answer");
    assert_eq!(all(listed.into_inner()).await.len(), 0);
}

#[tokio::test]
async fn a_question_is_answered_for_the_services_backends() {
    let mut served = served().await;
    let mut ask = async |to: &str, port| {
        let request = wire::CheckRequest {
            from: "192.0.2.1".into(),
            to: to.into(),
            port,
            protocol: String::new(),
        };
        served
            .client
            .check(request)
            .await
            .map(tonic::Response::into_inner)
    };
    let reply = ask("shop/cart", 80).await.expect("an answer");
    let [answer] = reply.answers.as_slice() else {
        panic!("{reply:?}");
    };
    let destination = answer.destinations.first().expect("one");
    let address: SocketAddr = (IpAddr::from(CART), 8080).into();
    assert_eq!(
        format!("{}:{}", destination.address, destination.port),
        address.to_string()
    );
    assert_eq!(
        (reply.verdict.as_str(), answer.service.as_str()),
        ("allowed", "shop/cart")
    );
    let reply = ask("10.96.0.1", 0).await.expect("an answer");
    assert_eq!(reply.verdict, "allowed");
    let reply = ask("shop/cart-0", 22).await.expect("an answer");
    assert_eq!(reply.verdict, "denied");
    let refused = ask("shop/nothing", 80).await.expect_err("no such thing");
    assert!(refused.message().contains("shop/nothing"), "{refused}");
}

#[tokio::test]
async fn edges_count_what_has_ended_what_is_open_and_what_was_refused() {
    let mut served = served().await;
    for kind in [EventKind::Close, EventKind::Denied, EventKind::Denied] {
        served.agent.kernel.emit(event(kind, 8080));
    }
    while remembered(&served).len() < 3 {
        tokio::task::yield_now().await;
    }
    let open = (1..=600).map(connection).collect();
    served.agent.kernel.set_connections(open);
    let mut edges = async |open| {
        let request = wire::ListEdgesRequest { open };
        let listed = served.client.list_edges(request).await.expect("answer");
        let mut items = all(listed.into_inner()).await.into_iter();
        let Some(wire::edge_item::Item::Head(head)) = items.next().and_then(|i| i.item) else {
            panic!("no head");
        };
        assert_eq!((head.node.as_str(), head.partial), ("n1", false));
        let edges = items.filter_map(|i| i.item).map(|item| match item {
            wire::edge_item::Item::Edge(edge) => edge,
            wire::edge_item::Item::Head(_) => panic!("two heads"),
        });
        let [edge] = edges.collect::<Vec<_>>().try_into().expect("one edge");
        (head.started_unix_nano, edge)
    };
    let (started, edge) = edges(true).await;
    assert_eq!(edge.destination_namespace, "shop");
    assert_eq!(edge.direction, "ingress");
    assert_eq!((edge.opened, edge.closed, edge.open), (0, 1, 600));
    let bytes = edge.bytes.expect("bytes");
    assert_eq!((bytes.sent, bytes.received), (60 + 600, 1_200));
    let denied: Vec<_> = edge
        .denied
        .iter()
        .map(|d| (d.reason.as_str(), d.count))
        .collect();
    assert_eq!(denied, [("default", 2)]);
    let (again, edge) = edges(false).await;
    assert_eq!(again, started, "the same agent counts from the same moment");
    assert_eq!((edge.open, edge.bytes.expect("bytes").sent), (0, 60));
}
