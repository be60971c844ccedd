//! Servers that are broken, hostile or gone.

use std::time::Duration;

use tonic::Status;
use weft_proto::model::Resource;
use weft_proto::resource::ResourceType;

use super::server::{CART, Service, Site, garbage, response, wrap};
use crate::xds::InProcess;

const SHOP: Service = Service {
    name: "shop",
    vip: "10.96.0.2",
    backends: &["10.0.0.3:80"],
};

#[tokio::test]
async fn one_bad_resource_does_not_touch_the_others() {
    let mut site = Site::start();
    let mut stream = site.delta().await;
    stream.hear_subscriptions(5).await;
    let mut clusters = response(ResourceType::Cluster, "c");
    let mut misnamed = wrap(&CART.cluster());
    misnamed.name = "other".into();
    let mut empty = wrap(&CART.cluster());
    empty.name = "hollow".into();
    empty.resource = None;
    clusters.resources = vec![
        garbage(ResourceType::Cluster, "bad"),
        wrap(&CART.cluster()),
        wrap(&CART.cluster()),
        misnamed,
        empty,
    ];
    stream.say(clusters).await;
    let mut text = None;
    let mut asked = Vec::new();
    for _ in 0..2 {
        let request = stream.hear().await;
        asked.extend(request.resource_names_subscribe);
        text = text.or(request.error_detail.map(|e| (e.code, e.message)));
    }
    assert_eq!(asked, ["cart"], "the good one is in effect");
    let (code, text) = text.expect("a rejection");
    assert_eq!(code, 3, "INVALID_ARGUMENT");
    for part in [
        "bad: cannot be decoded",
        "cart: stands twice",
        "other: name: the resource inside is called \"cart\"",
        "hollow: resource: is missing",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let rejected = site.engine.query(|e| e.rejections()).await.expect("engine");
    assert!(
        rejected
            .iter()
            .any(|(t, r)| *t == ResourceType::Cluster && r.name == "bad")
    );

    // Put right: no longer a rejection.
    stream.say_resources("c2", &[CART.cluster()]).await;
    assert_eq!(stream.hear_ack("c2").await, None);
    stream.end(Status::unavailable("restarting")).await;
    let heard = site.delta().await.hear_subscriptions(1).await;
    let held: Vec<_> = heard[0].initial_resource_versions.keys().collect();
    assert_eq!(held, ["cart"], "what was rejected does not count as held");
}

#[tokio::test]
async fn what_is_rejected_for_its_content_leaves_the_last_good_state() {
    let mut site = Site::start();
    let mut stream = site.delta().await;
    stream.hear_subscriptions(5).await;
    stream.tell(&CART).await;
    let mut broken = response(ResourceType::Endpoints, "e2");
    broken.resources = vec![garbage(ResourceType::Endpoints, "cart")];
    stream.say(broken).await;
    assert!(
        stream
            .hear_ack("e2")
            .await
            .is_some_and(|t| t.starts_with("cart: "))
    );
    assert_eq!(site.slots(&CART), Some(2));
    // Two listeners for one VIP: the second is named, the first serves.
    let Resource::Listener(mut twin) = CART.listener() else {
        unreachable!("it is one");
    };
    twin.name = "twin".into();
    stream
        .say_resources("l2", &[Resource::Listener(twin)])
        .await;
    let text = stream.hear_ack("l2").await.expect("a rejection");
    assert!(
        text.contains("twin: 10.96.0.1:80/tcp is already served"),
        "{text}"
    );
    stream.end(Status::unavailable("restarting")).await;
    let heard = site.delta().await.hear_subscriptions(6).await;
    let listeners = heard
        .iter()
        .find(|r| r.type_url == ResourceType::Listener.type_url());
    let held = &listeners.expect("asked for").initial_resource_versions;
    assert_eq!(held.get("cart").map(String::as_str), Some("1"));
    assert_eq!(
        held.get("twin").map(String::as_str),
        Some(""),
        "send it again, or say that it is gone"
    );
}

#[tokio::test]
async fn nonsense_is_passed_over() {
    let mut site = Site::start();
    let mut stream = site.delta().await;
    stream.hear_subscriptions(5).await;
    stream.tell(&CART).await;
    let mut unknown = response(ResourceType::Cluster, "x");
    unknown.type_url = "type.googleapis.com/example.Unknown".into();
    unknown.removed_resources = vec!["cart".into()];
    stream.say(unknown).await;
    let mut unasked = response(ResourceType::Endpoints, "e2");
    unasked.resources = vec![wrap(&SHOP.endpoints())];
    stream.say(unasked).await;
    assert_eq!(stream.hear_ack("e2").await, None);
    let mut nameless = response(ResourceType::Cluster, "");
    nameless.removed_resources = vec!["never was".into()];
    stream.say(nameless).await;
    assert!(stream.hears_nothing().await, "nothing to refer to");
    assert_eq!(site.slots(&CART), Some(2));
    let known = site
        .engine
        .query(|e| e.summary().resources)
        .await
        .expect("engine");
    assert_eq!(known[1], (ResourceType::Endpoints, 1));
}

#[tokio::test]
async fn a_server_that_errs_at_once_or_flaps_takes_nothing_away() {
    let mut site = Site::start();
    let mut stream = site.delta().await;
    stream.hear_subscriptions(5).await;
    stream.tell(&CART).await;
    stream.end(Status::internal("broken")).await;
    for round in 0..20 {
        let stream = site.delta().await;
        match round % 3 {
            0 => drop(stream),
            1 => {
                stream
                    .end(Status::invalid_argument("no reason at all"))
                    .await
            }
            _ => stream.end(Status::resource_exhausted("go away")).await,
        }
    }
    let mut stream = site.delta().await;
    stream.hear_subscriptions(6).await;
    assert_eq!(site.slots(&CART), Some(2));
    assert!(site.metrics.reconnects.get() >= 20);
    assert!(site.status.snapshot().last_error.is_some());
}

#[tokio::test]
async fn a_server_that_says_nothing_at_all_is_given_up() {
    let opened = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&opened);
    let held = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let pipe = InProcess::new(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        // Half open: the other end lives, but nobody reads it.
        held.lock().expect("no panic").push(theirs);
        Box::pin(async { Ok(ours) })
    });
    let site = Site::on_pipe(pipe.with_keepalive(Duration::from_millis(50)));
    site.until("another attempt", |_| {
        opened.load(std::sync::atomic::Ordering::Relaxed) >= 3
    })
    .await;
    assert!(!site.status.snapshot().connected);
}
