//! Sizes past what clusters have.
#![allow(clippy::panic, clippy::unwrap_used)]

mod support;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use support::{Lab, names};
use weft_proto::convert;
use weft_proto::model::Resource;
use weft_proto::resource::ResourceType::{Endpoints, Listener};

const SLICES: usize = 1000;
const PER_SLICE: usize = 100;

fn slice(i: usize, ready: bool) -> String {
    let mut text = format!(
        r#"{{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4",
"metadata":{{"name":"big-{i}","namespace":"shop","labels":{{"kubernetes.io/service-name":"big"}}}},
"ports":[{{"port":8080}}],"endpoints":["#
    );
    for j in 0..PER_SLICE {
        let comma = if j == 0 { "" } else { "," };
        let (high, low) = (i / 250, i % 250);
        write!(
            text,
            r#"{comma}{{"addresses":["10.{high}.{low}.{}"],"nodeName":"n{low}","conditions":{{"ready":{ready}}}}}"#,
            j + 1
        )
        .unwrap();
    }
    text + "]}\n"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_endpoints_in_one_service() {
    let service = "apiVersion: v1
kind: Service
metadata: {name: big, namespace: shop}
spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: small, namespace: shop}
spec: {clusterIP: 10.96.0.2, ports: [{port: 80}]}
";
    let most: String = (1..SLICES).map(|i| slice(i, true)).collect();
    let lab = Lab::start_unsynced(&[
        ("service.yaml", service),
        ("most.json", &most),
        ("one.json", &slice(0, true)),
    ]);
    let start = Instant::now();
    let mut stream = lab.delta("n1").await;
    stream.subscribe(Listener, &["*"]).await;
    let listeners = tokio::time::timeout(Duration::from_secs(120), stream.responses.message());
    let listeners = listeners.await.unwrap().unwrap().unwrap();
    assert_eq!(names(&listeners).len(), 2);
    eprintln!("100,000 endpoints read in {:?}", start.elapsed());

    stream.subscribe(Endpoints, &["*"]).await;
    let mut sizes = Vec::new();
    for _ in 0..2 {
        // The big one is larger than a piece and travels alone.
        let piece = stream.next().await;
        assert_eq!(piece.resources.len(), 1, "{:?}", names(&piece));
        sizes.push(endpoints(&piece.resources[0]));
    }
    sizes.sort_unstable();
    assert_eq!(sizes, [(0, 0), (SLICES * PER_SLICE, 0)]);

    let start = Instant::now();
    lab.write("one.json", &slice(0, false));
    let change = stream.next().await;
    assert_eq!(names(&change), ["shop/big:80/tcp"]);
    assert_eq!(
        endpoints(&change.resources[0]),
        (SLICES * PER_SLICE, PER_SLICE)
    );
    eprintln!("one slice of 1,000 changed in {:?}", start.elapsed());
}

/// How many endpoints, and how many of them are not healthy.
fn endpoints(
    resource: &weft_proto::envoy::envoy::service::discovery::v3::Resource,
) -> (usize, usize) {
    let any = resource.resource.as_ref().unwrap();
    let Resource::Endpoints(decoded) = convert::decode(Endpoints, any).unwrap() else {
        panic!("not endpoints");
    };
    let sick = decoded
        .endpoints
        .iter()
        .filter(|e| e.health != weft_proto::model::Health::Healthy);
    (decoded.endpoints.len(), sick.count())
}
