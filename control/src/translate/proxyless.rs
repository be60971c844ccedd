//! What gRPC clients that speak xDS themselves ask for: a listener by the name they dial, and its routes. Clusters and endpoints are
//! those of everybody.

use weft_proto::model::route::{Forward, PathMatch, RequestMatch, Route, RouteAction, Target};
use weft_proto::model::{ApiListener, Protocol, RouteTable};

use super::{balanced_ports, resource_name};
use crate::object::{ObjectName, Service, ServicePort};

/// What is published for a service.
pub(super) type Proxyless = (Vec<ApiListener>, Vec<RouteTable>);

/// Listeners and routes of each TCP port; `routes` are those that Envoy has.
pub(super) fn of_service(name: &ObjectName, service: &Service, routes: &[RouteTable]) -> Proxyless {
    let ports: Vec<_> = balanced_ports(service)
        .iter()
        .filter(|port| port.protocol == Protocol::Tcp)
        .collect();
    let usual = usual_port(&ports);
    let mut listeners = Vec::new();
    let mut tables = Vec::new();
    for port in ports {
        let table = format!("{}.{}:{}", name.name, name.namespace, port.port);
        for host in hosts(name) {
            let mut listen = |name| {
                listeners.push(ApiListener {
                    name,
                    routes: table.clone(),
                });
            };
            listen(format!("{host}:{}", port.port));
            if usual == Some(port.port) {
                listen(host);
            }
        }
        let cluster = resource_name(name, port.port, port.protocol);
        let routed = routes.iter().find(|routes| routes.name == cluster);
        tables.push(RouteTable {
            name: table,
            routes: match routed {
                Some(routes) => routes.routes.iter().filter_map(for_grpc).collect(),
                None => vec![to_cluster(cluster)],
            },
        });
    }
    (listeners, tables)
}

fn hosts(name: &ObjectName) -> [String; 2] {
    let short = format!("{}.{}", name.name, name.namespace);
    let full = format!("{short}.svc.cluster.local");
    [short, full]
}

/// The port that is meant where none is dialled: the only one, or the only one that says it is for gRPC.
fn usual_port(ports: &[&ServicePort]) -> Option<u16> {
    let is_grpc = |port: &&&ServicePort| port.name == "grpc" || port.name.starts_with("grpc-");
    match ports {
        [only] => Some(only.port),
        _ => {
            let mut named = ports.iter().filter(is_grpc);
            let first = named.next()?;
            named.next().is_none().then_some(first.port)
        }
    }
}

/// A route as gRPC's clients understand it, who know neither prefixes that end at a slash nor methods; `None` if it matches no call.
fn for_grpc(route: &Route) -> Option<Route> {
    let matching = &route.matching;
    let post = matching.method.as_deref().is_none_or(|m| m == "POST");
    (post && matching.query.is_empty()).then(|| Route {
        matching: RequestMatch {
            path: match &matching.path {
                PathMatch::Prefix(path) if path != "/" => {
                    PathMatch::Regex(format!("{}(/.*)?", regex::escape(path)))
                }
                other => other.clone(),
            },
            method: None,
            ..matching.clone()
        },
        ..route.clone()
    })
}

fn to_cluster(cluster: String) -> Route {
    Route {
        name: String::new(),
        matching: RequestMatch {
            path: PathMatch::Prefix("/".to_owned()),
            method: None,
            headers: Vec::new(),
            query: Vec::new(),
        },
        request_headers: Default::default(),
        response_headers: Default::default(),
        action: RouteAction::Forward(Box::new(Forward {
            targets: vec![Target {
                cluster: Some(cluster),
                weight: 1,
                request_headers: Default::default(),
                response_headers: Default::default(),
            }],
            ..Forward::default()
        })),
    }
}
