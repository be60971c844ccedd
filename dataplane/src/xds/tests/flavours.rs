//! Servers that speak less than ours.

use tonic::Status;
use weft_proto::convert;
use weft_proto::envoy::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use weft_proto::model::Resource;
use weft_proto::resource::ResourceType;

use super::server::{CART, Service, Site, World, garbage};

#[tokio::test]
async fn a_server_without_our_types_is_not_asked_for_them_again() {
    let mut site = Site::start();
    for (refused, left) in [
        (ResourceType::Policy, 4),
        (ResourceType::Workload, 3),
        (ResourceType::Problem, 2),
    ] {
        let mut stream = site.delta().await;
        stream.hear_subscriptions(left + 1).await;
        let text = format!("unknown type {}", refused.type_url());
        stream.end(Status::invalid_argument(text)).await;
    }
    let mut stream = site.delta().await;
    stream.hear_subscriptions(2).await;
    assert!(stream.hears_nothing().await);
    stream.tell(&CART).await;
    site.until("synced", |s| s.status.snapshot().synced).await;
    assert_eq!(site.metrics.reconnects.get(), 0, "learning costs no pause");
    assert_eq!(site.status.snapshot().unsupported.len(), 3);
}

fn world(version: &str, nonce: &str, resources: &[Resource]) -> DiscoveryResponse {
    DiscoveryResponse {
        version_info: version.to_owned(),
        nonce: nonce.to_owned(),
        type_url: resources[0].resource_type().type_url().to_owned(),
        resources: resources.iter().map(convert::encode).collect(),
        ..Default::default()
    }
}

async fn hear_of(stream: &mut World, resource_type: ResourceType) -> DiscoveryRequest {
    loop {
        let request = stream.hear().await;
        if request.type_url == resource_type.type_url() {
            return request;
        }
    }
}

const SHOP: Service = Service {
    name: "shop",
    vip: "10.96.0.2",
    backends: &["10.0.0.3:80"],
};

#[tokio::test]
async fn state_of_the_world_where_there_is_no_delta() {
    let mut site = Site::with(false, |_| {});
    let mut stream = site.world().await;
    let first = hear_of(&mut stream, ResourceType::Cluster).await;
    assert_eq!(first.node.map(|n| n.id), Some("here".to_owned()));
    assert_eq!(
        (first.version_info.as_str(), first.resource_names.len()),
        ("", 0)
    );
    stream
        .say(world("1", "c1", &[CART.cluster(), SHOP.cluster()]))
        .await;
    let asked = hear_of(&mut stream, ResourceType::Endpoints).await;
    assert_eq!(asked.resource_names, ["cart", "shop"]);
    stream
        .say(world("1", "e1", &[CART.endpoints(), SHOP.endpoints()]))
        .await;
    let ack = hear_of(&mut stream, ResourceType::Endpoints).await;
    assert_eq!(
        (ack.version_info.as_str(), ack.response_nonce.as_str()),
        ("1", "e1")
    );
    assert_eq!(
        ack.resource_names,
        ["cart", "shop"],
        "every request lists all"
    );
    stream
        .say(world("1", "l1", &[CART.listener(), SHOP.listener()]))
        .await;
    let ack = loop {
        let request = hear_of(&mut stream, ResourceType::Listener).await;
        if request.response_nonce == "l1" {
            break request;
        }
    };
    assert_eq!(ack.version_info, "1");
    assert_eq!((site.slots(&CART), site.slots(&SHOP)), (Some(2), Some(1)));
    site.until("synced", |s| s.status.snapshot().synced).await;

    // Endpoints are told one by one, and others stay.
    let more = Service {
        backends: &["10.0.0.3:80", "10.0.0.4:80"],
        ..SHOP
    };
    stream.say(world("2", "e2", &[more.endpoints()])).await;
    hear_of(&mut stream, ResourceType::Endpoints).await;
    assert_eq!((site.slots(&CART), site.slots(&SHOP)), (Some(2), Some(2)));

    // A bad one among listeners: the last accepted version, the reason, and nothing lost.
    let mut broken = world("2", "l2", &[CART.listener()]);
    broken
        .resources
        .extend(garbage(ResourceType::Listener, "x").resource);
    stream.say(broken).await;
    let nack = hear_of(&mut stream, ResourceType::Listener).await;
    assert_eq!(
        (nack.version_info.as_str(), nack.response_nonce.as_str()),
        ("1", "l2")
    );
    assert!(
        nack.error_detail
            .is_some_and(|e| e.message.starts_with("resources[1]: "))
    );
    assert_eq!(
        site.slots(&SHOP),
        Some(2),
        "it may be the one that could not be read"
    );

    // What is not mentioned is gone.
    stream.say(world("3", "l3", &[CART.listener()])).await;
    let ack = hear_of(&mut stream, ResourceType::Listener).await;
    assert_eq!(ack.version_info, "3");
    assert_eq!((site.slots(&CART), site.slots(&SHOP)), (Some(2), None));

    stream.end(Status::unavailable("restarting")).await;
    let mut stream = site.world().await;
    let again = hear_of(&mut stream, ResourceType::Listener).await;
    assert_eq!(
        (again.version_info.as_str(), again.response_nonce.as_str()),
        ("3", "")
    );
    assert_eq!(site.slots(&CART), Some(2));
}
