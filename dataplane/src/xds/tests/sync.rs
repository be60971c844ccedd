//! The ordinary course of things.

use std::time::Duration;

use weft_proto::resource::ResourceType;

use super::server::{CART, Service, Site, response, wrap};

#[tokio::test]
async fn subscribes_to_everything_and_says_who_it_is_once() {
    let mut site = Site::start();
    let mut stream = site.delta().await;
    let heard = stream.hear_subscriptions(5).await;
    let urls: Vec<_> = heard.iter().map(|r| r.type_url.as_str()).collect();
    let expected = [
        ResourceType::Cluster,
        ResourceType::Listener,
        ResourceType::Policy,
        ResourceType::Workload,
        ResourceType::Problem,
    ];
    assert_eq!(urls, expected.map(ResourceType::type_url));
    assert_eq!(heard[0].node.as_ref().map(|n| n.id.as_str()), Some("here"));
    for request in &heard {
        assert!(request.resource_names_subscribe.is_empty(), "a wildcard");
        assert!(request.initial_resource_versions.is_empty());
    }
    assert!(heard[1..].iter().all(|r| r.node.is_none()));
    assert!(
        stream.hears_nothing().await,
        "no endpoints before a cluster asks for some"
    );
}

#[tokio::test]
async fn acknowledges_what_is_in_the_tables_and_is_then_in_sync() {
    let mut site = Site::start();
    let mut stream = site.delta().await;
    stream.hear_subscriptions(5).await;
    assert!(!site.status.snapshot().synced);
    stream.tell(&CART).await;
    // The acknowledgement of the listener was heard.
    assert_eq!(site.slots(&CART), Some(2));
    site.until(
        "synced without the types that only Weft's server has",
        |s| s.status.snapshot().synced,
    )
    .await;

    let fewer = Service {
        backends: &["10.0.0.1:80"],
        ..CART
    };
    stream.say_resources("e2", &[fewer.endpoints()]).await;
    assert_eq!(stream.hear_ack("e2").await, None);
    assert_eq!(site.slots(&CART), Some(1));

    let mut gone = response(ResourceType::Listener, "l2");
    gone.removed_resources = vec!["cart".into(), "never was".into()];
    stream.say(gone).await;
    assert_eq!(stream.hear_ack("l2").await, None);
    assert_eq!(site.slots(&CART), None);

    let mut gone = response(ResourceType::Cluster, "c2");
    gone.removed_resources = vec!["cart".into()];
    stream.say(gone).await;
    let mut unsubscribed = Vec::new();
    for _ in 0..2 {
        unsubscribed.extend(stream.hear().await.resource_names_unsubscribe);
    }
    assert_eq!(unsubscribed, ["cart"]);
}

#[tokio::test]
async fn resumes_with_the_versions_that_it_holds() {
    let mut site = Site::start();
    let mut stream = site.delta().await;
    stream.hear_subscriptions(5).await;
    stream.tell(&CART).await;
    stream.end(tonic::Status::unavailable("restarting")).await;

    let mut stream = site.delta().await;
    assert_eq!(site.slots(&CART), Some(2), "nothing is deleted");
    let heard = stream.hear_subscriptions(6).await;
    for request in &heard {
        let versions: Vec<_> = request.initial_resource_versions.iter().collect();
        match ResourceType::from_type_url(&request.type_url) {
            Some(ResourceType::Policy | ResourceType::Workload | ResourceType::Problem) => {
                assert!(versions.is_empty())
            }
            _ => assert_eq!(
                versions,
                [(&"cart".to_owned(), &"1".to_owned())],
                "{request:?}"
            ),
        }
    }
    assert_eq!(heard[1].type_url, ResourceType::Endpoints.type_url());
    assert_eq!(heard[1].resource_names_subscribe, ["cart"]);
    site.until("connected", |s| s.status.snapshot().connected)
        .await;
    assert_eq!(site.metrics.reconnects.get(), 1);
}

#[tokio::test]
async fn an_answer_in_parts_is_complete_with_its_last() {
    let mut site = Site::with(true, |c| c.optional_wait = Duration::ZERO);
    let mut stream = site.delta().await;
    stream.hear_subscriptions(5).await;
    stream.say(response(ResourceType::Cluster, "c")).await;
    assert_eq!(stream.hear_ack("c").await, None);
    let mut part = response(ResourceType::Listener, "l1");
    part.system_version_info = "7+".into();
    stream.say(part.clone()).await;
    assert_eq!(stream.hear_ack("l1").await, None);
    assert!(!site.status.snapshot().synced, "more is to come");
    part.system_version_info = "7".into();
    part.nonce = "l2".into();
    stream.say(part).await;
    site.until("synced", |s| s.status.snapshot().synced).await;
}

#[tokio::test]
async fn endpoints_that_never_come_count_as_empty() {
    let wait = Duration::from_millis(300);
    let mut site = Site::with(true, |c| c.endpoints_wait = wait);
    let mut stream = site.delta().await;
    stream.hear_subscriptions(5).await;
    stream.say_resources("c", &[CART.cluster()]).await;
    stream.say_resources("l", &[CART.listener()]).await;
    site.until("asked", |s| s.status.snapshot().awaited_endpoints == 1)
        .await;
    assert!(!site.status.snapshot().synced);
    site.until("synced", |s| s.status.snapshot().synced).await;
    assert_eq!(site.slots(&CART), Some(0), "refused at once");
    assert!(site.status.snapshot().missing_endpoints.contains("cart"));
    // Late is better than never.
    stream.say_resources("e", &[CART.endpoints()]).await;
    site.until("served", |s| s.slots(&CART) == Some(2)).await;
    assert!(site.status.snapshot().missing_endpoints.is_empty());
}

#[tokio::test]
async fn a_large_response_is_applied_as_a_whole() {
    let mut site = Site::start();
    let mut stream = site.delta().await;
    stream.hear_subscriptions(5).await;
    let mut clusters = response(ResourceType::Cluster, "c");
    for index in 0..3_000 {
        let mut cluster = wrap(&CART.cluster());
        if let weft_proto::model::Resource::Cluster(mut c) = CART.cluster() {
            c.name = format!("cart-{index}");
            c.endpoints = weft_proto::model::EndpointSource::Eds(c.name.clone());
            cluster = wrap(&weft_proto::model::Resource::Cluster(c));
        }
        clusters.resources.push(cluster);
    }
    stream.say(clusters).await;
    let mut asked = 0;
    while asked < 3_000 {
        asked += stream.hear().await.resource_names_subscribe.len();
    }
    let known = site.engine.query(|e| e.summary().resources).await;
    assert_eq!(known.expect("engine")[0], (ResourceType::Cluster, 3_000));
}
