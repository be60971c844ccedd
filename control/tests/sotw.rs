//! The state-of-the-world variant of ADS, seen by a client.
#![allow(clippy::panic, clippy::unwrap_used)]

mod support;

use support::{Lab, service};
use weft_proto::convert;
use weft_proto::envoy::envoy::service::discovery::v3::DiscoveryResponse;
use weft_proto::resource::ResourceType::{self, Cluster, Endpoints, Listener};

const CART: &str = "shop/cart:80/tcp";
const PAY: &str = "shop/pay:80/tcp";

fn names(resource_type: ResourceType, response: &DiscoveryResponse) -> Vec<String> {
    assert_eq!(response.type_url, resource_type.type_url());
    response
        .resources
        .iter()
        .map(|any| convert::decode(resource_type, any).unwrap().name())
        .collect()
}

async fn shop() -> Lab {
    Lab::start(&[
        ("cart.yaml", &service("cart", "10.96.0.1", "10.0.0.1")),
        ("pay.yaml", &service("pay", "10.96.0.2", "10.0.0.2")),
    ])
    .await
}

#[tokio::test]
async fn listeners_are_always_complete() {
    let lab = shop().await;
    let mut stream = lab.sotw("envoy").await;
    stream.request(Listener, &[], None, None).await;
    let first = stream.next().await;
    assert_eq!(names(Listener, &first), [CART, PAY]);
    stream.request(Listener, &[], Some(&first), None).await;
    stream.assert_silent().await;

    lab.remove("pay.yaml");
    let second = stream.next().await;
    assert_eq!(names(Listener, &second), [CART]);
    assert_ne!(first.version_info, second.version_info);
    // The answer to the first response again: it is stale and changes nothing.
    stream.request(Listener, &["x"], Some(&first), None).await;
    stream.assert_silent().await;
    lab.write("pay.yaml", &service("pay", "10.96.0.2", "10.0.0.2"));
    let third = stream.next().await;
    assert_eq!(names(Listener, &third), [CART, PAY]);
    assert_eq!(
        first.version_info, third.version_info,
        "equal content has an equal version"
    );
}

#[tokio::test]
async fn endpoints_follow_the_names_asked_for() {
    let lab = shop().await;
    let mut stream = lab.sotw("envoy").await;
    stream.request(Endpoints, &[CART], None, None).await;
    let first = stream.next().await;
    assert_eq!(names(Endpoints, &first), [CART]);
    stream
        .request(Endpoints, &[CART, PAY], Some(&first), None)
        .await;
    let second = stream.next().await;
    assert_eq!(names(Endpoints, &second), [PAY]);
    stream
        .request(Endpoints, &[CART], Some(&second), None)
        .await;
    lab.write("pay.yaml", &service("pay", "10.96.0.2", "10.0.0.3"));
    stream.assert_silent().await;
    lab.write("cart.yaml", &service("cart", "10.96.0.1", "10.0.0.4"));
    assert_eq!(names(Endpoints, &stream.next().await), [CART]);
}

#[tokio::test]
async fn a_client_that_has_the_version_is_not_sent_it_again() {
    let lab = shop().await;
    let mut stream = lab.sotw("envoy").await;
    stream.request(Cluster, &[], None, None).await;
    let first = stream.next().await;
    drop(stream);
    let mut again = lab.sotw("envoy").await;
    again
        .request_with_version(Cluster, &[], &first.version_info, "", None)
        .await;
    again.assert_silent().await;
    lab.remove("pay.yaml");
    assert_eq!(names(Cluster, &again.next().await), [CART]);
}

#[tokio::test]
async fn a_nack_is_kept_and_not_answered() {
    let lab = shop().await;
    let mut stream = lab.sotw("envoy").await;
    stream.request(Listener, &[], None, None).await;
    let first = stream.next().await;
    stream
        .request(
            Listener,
            &[],
            Some(&first),
            Some("Error adding/updating listener(s) shop/cart:80/tcp: no"),
        )
        .await;
    stream.assert_silent().await;
    let nacks = lab.plane.nacks();
    assert_eq!(nacks.len(), 1);
    assert_eq!(
        (nacks[0].node.as_str(), nacks[0].resource.as_str()),
        ("envoy", CART)
    );
}
