//! A whole cluster at once is taken in pieces.

use serde_json::json;

use super::super::PIECE;
use super::*;

/// More of everything than one piece takes, with what depends on all of it: tunnels, and an Envoy that stands in for pods.
fn cluster() -> Vec<Object> {
    let count = PIECE + PIECE / 10;
    let node = |i: usize| format!("node-{}", i % 20);
    let nodes = (0..20).map(|i| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": node(i)},
            "status": {"addresses": [{"type": "InternalIP", "address": format!("172.16.0.{}", i + 1)}]},
        })
    });
    let pods = (0..count).map(|i| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{i}"), "labels": {"app": format!("app-{}", i / 10)}},
            "spec": {"nodeName": node(i)},
            "status": {"podIP": format!("10.0.{}.{}", i / 250, i % 250 + 1)},
        })
    });
    let services = (0..count / 10).map(|i| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("app-{i}")},
            "spec": {
                "type": "NodePort", "clusterIP": format!("10.96.0.{}", i + 1),
                "externalTrafficPolicy": "Local", "selector": {"app": format!("app-{i}")},
                "ports": [{"port": 80, "nodePort": 30000 + i}],
            },
        })
    });
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "route"},
        "spec": {
            "parentRefs": [{"group": "", "kind": "Service", "name": "app-1"}],
            "rules": [{"backendRefs": [{"name": "app-0", "port": 80}, {"name": "app-99", "port": 80}]}],
        },
    });
    let policy = json!({
        "apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": {"name": "policy"},
        "spec": {
            "selector": {"matchLabels": {"app": "app-7"}},
            "rules": [{"to": [{"operation": {"paths": ["/a"]}}]}],
        },
    });
    let all = nodes.chain(pods).chain(services).chain([route, policy]);
    all.map(|manifest| object(&manifest)).collect()
}

#[test]
fn what_is_taken_in_pieces_is_the_whole() {
    let settings = Settings {
        tunnels: true,
        ..Settings::default()
    };
    let stores = |groups: Vec<Vec<Event>>| {
        let store = Arc::new(Store::default());
        let mut engine = Engine::new(Arc::clone(&store), settings.clone());
        let envoys = engine.envoys();
        groups.into_iter().for_each(|group| engine.publish(group));
        assert!(store.is_synced() && envoys.is_synced());
        (published(&store), published(&envoys))
    };
    let told = || cluster().into_iter().map(Event::Applied);
    let in_pieces = stores(vec![told().chain([Event::Synced]).collect()]);
    let at_once = stores(vec![vec![Event::Synced], told().collect()]);
    assert!(in_pieces.0.len() > 2 * PIECE, "{}", in_pieces.0.len());
    assert!(in_pieces.1.len() > 40, "{}", in_pieces.1.len());
    assert_eq!(in_pieces, at_once);
}
