//! The delta variant of ADS, seen by a client.
#![allow(clippy::panic, clippy::unwrap_used)]

mod support;

use support::{Lab, names, service, versions};
use weft_proto::convert;
use weft_proto::envoy::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use weft_proto::model::{LbPolicy, Resource};
use weft_proto::resource::ResourceType::{Cluster, Endpoints, Listener, Problem, Workload};

const CART: &str = "shop/cart:80/tcp";
const PAY: &str = "shop/pay:80/tcp";

async fn shop() -> Lab {
    Lab::start(&[
        ("cart.yaml", &service("cart", "10.96.0.1", "10.0.0.1")),
        ("pay.yaml", &service("pay", "10.96.0.2", "10.0.0.2")),
    ])
    .await
}

#[tokio::test]
async fn a_wildcard_gets_all_and_then_what_changes() {
    let lab = shop().await;
    let mut stream = lab.delta("n1").await;
    stream.subscribe(Listener, &["*"]).await;
    let first = stream.next().await;
    assert_eq!(names(&first), [CART, PAY]);
    stream.ack(&first).await;
    stream.subscribe(Endpoints, &[]).await;
    assert_eq!(names(&stream.next().await), [CART, PAY]);
    stream.assert_silent().await;

    // One changed slice is one changed assignment and nothing else.
    lab.write("pay.yaml", &service("pay", "10.96.0.2", "10.0.0.3"));
    let change = stream.next().await;
    assert_eq!(change.type_url, Endpoints.type_url());
    assert_eq!(names(&change), [PAY]);
    assert!(change.removed_resources.is_empty());
    stream.assert_silent().await;
}

#[tokio::test]
async fn a_resumed_stream_is_sent_only_what_it_does_not_have() {
    let lab = shop().await;
    let mut stream = lab.delta("n1").await;
    stream.subscribe(Listener, &["*"]).await;
    let mut have: Vec<_> = versions(&stream.next().await).into_iter().collect();
    drop(stream);

    let mut again = lab.delta("n1").await;
    again.subscribe_with(Listener, &["*"], &have).await;
    let answer = again.next().await;
    assert!(answer.resources.is_empty() && answer.removed_resources.is_empty());
    again.assert_silent().await;
    drop(again);

    // A restarted control plane gives the same versions.
    let replica = shop().await;
    let mut other = replica.delta("n1").await;
    have.push(("shop/gone:1/tcp".to_owned(), "1".to_owned()));
    other.subscribe_with(Listener, &["*"], &have).await;
    assert!(other.next().await.resources.is_empty());
    assert_eq!(other.next().await.removed_resources, ["shop/gone:1/tcp"]);
    drop(other);

    // A version that is not ours is sent anew.
    have[0].1 = "stale".to_owned();
    let mut stale = replica.delta("n1").await;
    stale.subscribe_with(Listener, &["*"], &have).await;
    assert_eq!(names(&stale.next().await), [CART]);
}

#[tokio::test]
async fn names_come_and_go() {
    let lab = shop().await;
    let mut stream = lab.delta("n1").await;
    stream.subscribe(Cluster, &[CART, "shop/none:1/tcp"]).await;
    assert_eq!(names(&stream.next().await), [CART]);
    assert_eq!(stream.next().await.removed_resources, ["shop/none:1/tcp"]);

    stream.subscribe(Cluster, &[PAY]).await;
    assert_eq!(names(&stream.next().await), [PAY]);
    // Asked for again: the client may have lost it.
    stream.subscribe(Cluster, &[PAY]).await;
    assert_eq!(names(&stream.next().await), [PAY]);

    stream.unsubscribe(Cluster, &[PAY]).await;
    lab.remove("pay.yaml");
    stream.assert_silent().await;
    lab.write("none.yaml", &service("none", "10.96.0.9", "10.0.0.9"));
    stream.assert_silent().await;

    lab.remove("cart.yaml");
    assert_eq!(stream.next().await.removed_resources, [CART]);
    lab.write("cart.yaml", &service("cart", "10.96.0.1", "10.0.0.1"));
    assert_eq!(names(&stream.next().await), [CART]);
}

#[tokio::test]
async fn a_name_given_up_under_a_wildcard_is_told_once_more() {
    let lab = shop().await;
    let mut stream = lab.delta("n1").await;
    stream.subscribe(Cluster, &["*", CART]).await;
    assert_eq!(names(&stream.next().await), [CART, PAY]);
    stream.unsubscribe(Cluster, &[CART]).await;
    assert_eq!(names(&stream.next().await), [CART]);
    stream.unsubscribe(Cluster, &["*"]).await;
    lab.remove("pay.yaml");
    stream.assert_silent().await;
}

#[tokio::test]
async fn an_empty_type_is_answered() {
    let lab = Lab::start(&[]).await;
    let mut stream = lab.delta("n1").await;
    for resource_type in [Cluster, Endpoints, Listener, Workload, Problem] {
        stream.subscribe(resource_type, &["*"]).await;
        let answer = stream.next().await;
        assert_eq!(answer.type_url, resource_type.type_url());
        assert!(answer.resources.is_empty() && answer.removed_resources.is_empty());
    }
    stream.assert_silent().await;
}

#[tokio::test]
async fn what_is_referred_to_comes_before_and_goes_after() {
    let lab = shop().await;
    let mut stream = lab.delta("n1").await;
    for resource_type in [Cluster, Endpoints, Listener] {
        stream.subscribe(resource_type, &["*"]).await;
        stream.next().await;
    }
    lab.write("new.yaml", &service("new", "10.96.0.3", "10.0.0.3"));
    for resource_type in [Cluster, Endpoints, Listener] {
        let change = stream.next().await;
        assert_eq!(change.type_url, resource_type.type_url());
        assert_eq!(names(&change), ["shop/new:80/tcp"]);
    }
    lab.remove("new.yaml");
    for resource_type in [Listener, Endpoints, Cluster] {
        let change = stream.next().await;
        assert_eq!(change.type_url, resource_type.type_url());
        assert_eq!(change.removed_resources, ["shop/new:80/tcp"]);
    }
}

#[tokio::test]
async fn a_nack_is_kept_shown_and_not_answered_by_the_same_again() {
    let lab = shop().await;
    let mut stream = lab.delta("n1").await;
    stream.subscribe(Cluster, &["*"]).await;
    let first = stream.next().await;
    stream
        .nack(&first, "shop/pay:80/tcp: lb_policy: not here")
        .await;
    stream.assert_silent().await;
    let nacks = lab.plane.nacks();
    assert_eq!(nacks.len(), 1);
    assert_eq!(nacks[0].node, "n1");
    assert_eq!(nacks[0].resource_type, "Cluster");
    assert_eq!(nacks[0].resource, PAY);
    assert!(nacks[0].reason.contains("not here"));
    assert_eq!(lab.plane.status().nacks_total, 1);

    // Mended: the new version is taken, and the complaint is gone.
    let policy = "apiVersion: weft.io/v1alpha1
kind: TrafficPolicy
metadata: {name: pay, namespace: shop}
spec: {targetRefs: [{kind: Service, name: pay}], loadBalancing: {policy: Maglev}}";
    lab.write("policy.yaml", policy);
    let mended = stream.next().await;
    assert_eq!(names(&mended), [PAY]);
    let any = mended.resources[0].resource.as_ref().unwrap();
    let Resource::Cluster(cluster) = convert::decode(Cluster, any).unwrap() else {
        panic!("not a cluster");
    };
    assert_eq!(cluster.policy, LbPolicy::Maglev);
    stream.ack(&mended).await;
    stream.assert_silent().await;
    assert!(lab.plane.nacks().is_empty());
}

#[tokio::test]
async fn a_large_set_travels_in_pieces() {
    let mut text = String::new();
    for i in 0..3000 {
        let name = format!("s{i}-{}", "x".repeat(55));
        let vip = format!("10.{}.{}.1", 100 + i / 250, i % 250);
        text += &service(&name, &vip, "10.0.0.1");
    }
    let lab = Lab::start(&[("all.yaml", &text)]).await;
    let mut stream = lab.delta("n1").await;
    stream.subscribe(Listener, &["*"]).await;
    let mut all = std::collections::BTreeSet::new();
    let mut pieces = 0;
    loop {
        let piece = stream.next().await;
        pieces += 1;
        let bytes: usize = piece
            .resources
            .iter()
            .map(|r| r.resource.as_ref().unwrap().value.len())
            .sum();
        assert!(bytes <= 1 << 20);
        all.extend(names(&piece));
        if !piece.system_version_info.ends_with('+') {
            break;
        }
    }
    assert_eq!(all.len(), 3000);
    assert!(pieces > 1, "{pieces}");
}

#[tokio::test]
async fn malformed_requests_end_the_stream_or_are_passed_over() {
    let lab = shop().await;
    // No node.
    let mut stream = lab.delta("").await;
    stream.subscribe(Cluster, &["*"]).await;
    let status = stream.responses.message().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    // No type.
    let mut stream = lab.delta("n1").await;
    stream.subscribe(Cluster, &["*"]).await;
    stream.next().await;
    stream.send(DeltaDiscoveryRequest::default()).await;
    let status = stream.responses.message().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    // A foreign type, a nonce never given, a name never asked for: nothing happens.
    let mut stream = lab.delta("n1").await;
    stream.subscribe(Cluster, &["*"]).await;
    let first = stream.next().await;
    for (type_url, response_nonce) in [
        ("type.googleapis.com/envoy.config.route.v3.Route", ""),
        (Cluster.type_url(), "no number"),
        (Cluster.type_url(), "18446744073709551615"),
        (Listener.type_url(), first.nonce.as_str()),
    ] {
        stream
            .send(DeltaDiscoveryRequest {
                type_url: type_url.to_owned(),
                response_nonce: response_nonce.to_owned(),
                resource_names_unsubscribe: vec!["x".to_owned(), String::new()],
                ..DeltaDiscoveryRequest::default()
            })
            .await;
    }
    // The last one was the first request of its type, and that is answered.
    assert_eq!(names(&stream.next().await), [CART, PAY]);
    stream.assert_silent().await;
    // Too many names.
    let mut stream = lab.delta("n1").await;
    let many: Vec<String> = (0..1_000_000).map(|i| i.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    stream.subscribe(Cluster, &many).await;
    let status = stream.responses.message().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_catches_up_and_costs_nobody_anything() {
    let lab = shop().await;
    let mut slow = lab.delta("slow").await;
    slow.subscribe(Endpoints, &["*"]).await;
    slow.next().await;
    let mut quick = lab.delta("quick").await;
    quick.subscribe(Endpoints, &[CART]).await;
    quick.next().await;
    for i in 2..=40 {
        lab.write(
            "cart.yaml",
            &service("cart", "10.96.0.1", &format!("10.0.1.{i}")),
        );
        assert_eq!(names(&quick.next().await), [CART]);
    }
    // It was busy meanwhile: it gets what was on its way, and then the last state, not all that was between.
    let mut responses = 0;
    loop {
        let change = slow.next().await;
        responses += 1;
        let any = change.resources[0].resource.as_ref().unwrap();
        let Resource::Endpoints(endpoints) = convert::decode(Endpoints, any).unwrap() else {
            panic!("not endpoints");
        };
        if endpoints.endpoints[0].address == "10.0.1.40:8080".parse().unwrap() {
            break;
        }
    }
    eprintln!("caught up after {responses} responses");
    slow.assert_silent().await;
}

/// What comes to a node from outside is the kernel's: to an Envoy it would be the same address twice.
#[tokio::test]
async fn listeners_for_outside_are_for_all_but_envoys() {
    let manifest = "
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec:
  clusterIP: 10.96.0.1
  externalIPs: [192.0.2.1]
  externalTrafficPolicy: Local
  ports: [{port: 80}]
";
    let lab = Lab::start(&[("cart.yaml", manifest)]).await;
    let outside = [
        format!("{CART}@outside"),
        format!("{CART}@outside-external"),
    ];
    for (user_agent, wanted) in [("weft-agent", true), ("", true), ("envoy", false)] {
        let mut stream = lab.delta("n1").await;
        for (resource_type, more) in [Cluster, Listener].into_iter().zip(&outside) {
            stream.introduce(user_agent, resource_type).await;
            let expected = [CART, more.as_str()];
            let expected = if wanted {
                &expected[..]
            } else {
                &expected[..1]
            };
            assert_eq!(names(&stream.next().await), expected);
        }
        // Of what it was not told, it is not told either that it is gone.
        if !wanted {
            lab.remove("cart.yaml");
            for removed in [Listener, Cluster] {
                let gone = stream.next().await;
                assert_eq!(gone.type_url, removed.type_url());
                assert_eq!(gone.removed_resources, [CART]);
            }
        }
    }
}
