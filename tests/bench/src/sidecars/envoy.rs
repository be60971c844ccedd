//! A sidecar's Envoy, configured by hand as a sidecar mesh configures it: what the pod sends comes in at one port, what the pod is
//! sent at another, and every listener of a service is found by the original destination.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::certificates::Certificate;
use super::{ALLOWED_PATH, PORT};

/// Where iptables sends what the pod's own processes open.
pub(super) const OUTBOUND: u16 = 15_001;
/// Where iptables sends what is opened to the pod.
pub(super) const INBOUND: u16 = 15_006;

/// What differs from sidecar to sidecar.
pub(super) struct Sidecar<'a> {
    /// Service address and backend of each service that this pod asks.
    pub(super) asks: Vec<(Ipv4Addr, Ipv4Addr)>,
    /// Who alone may ask this pod.
    pub(super) admits: Option<Client<'a>>,
    /// Its certificate; none: plain text.
    pub(super) certificate: Option<&'a Certificate>,
    /// Services besides, with so many endpoints each, as every sidecar of a mesh knows them that is not told otherwise.
    pub(super) others: (u32, u32),
}

/// Whom a sidecar admits.
pub(super) enum Client<'a> {
    /// By the certificate.
    Identity(&'a str),
    /// By the address, where there are no certificates.
    Address(Ipv4Addr),
}

impl Sidecar<'_> {
    /// Its configuration.
    pub(super) fn bootstrap(&self) -> Value {
        let mut listeners = vec![self.inbound(), capture()];
        let mut clusters = vec![
            cluster("local", &[Ipv4Addr::LOCALHOST], None),
            json!({"name": "elsewhere", "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "connect_timeout": "5s"}),
        ];
        let asks = self
            .asks
            .iter()
            .map(|(service, backend)| (*service, vec![*backend]));
        let (services, endpoints) = self.others;
        let others = (0..services).map(|index| {
            let backends = (0..endpoints).map(|n| other(index, n + 1)).collect();
            (other(index, 0), backends)
        });
        for (service, backends) in asks.chain(others) {
            let name = format!("service-{service}");
            listeners.push(json!({
                "name": name, "address": socket(service, PORT), "bind_to_port": false,
                "filter_chains": [{"filters": [manager("outbound", &name, Vec::new())]}],
            }));
            let tls = self.certificate.map(Certificate::client);
            clusters.push(cluster(&name, &backends, tls));
        }
        json!({
            "node": {"id": "sidecar", "cluster": "bench"},
            "static_resources": {"listeners": listeners, "clusters": clusters},
        })
    }

    fn inbound(&self) -> Value {
        let filters = self.admits.as_ref().map(rbac).into_iter().collect();
        let mut chain = json!({"filters": [manager("inbound", "local", filters)]});
        if let Some(certificate) = self.certificate {
            chain["transport_socket"] = certificate.server();
        }
        json!({
            "name": "inbound", "address": socket(Ipv4Addr::UNSPECIFIED, INBOUND),
            "listener_filters": [original_destination()],
            "filter_chains": [chain],
        })
    }
}

/// What the pod opens goes to the listener of its original destination, and where there is none, on as it is.
fn capture() -> Value {
    json!({
        "name": "capture", "address": socket(Ipv4Addr::UNSPECIFIED, OUTBOUND), "use_original_dst": true,
        "listener_filters": [original_destination()],
        "filter_chains": [{"filters": [{
            "name": "envoy.filters.network.tcp_proxy",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                "stat_prefix": "elsewhere", "cluster": "elsewhere",
            },
        }]}],
    })
}

/// Without access log, traces and statistics of its own, all of which a sidecar mesh adds: in the sidecars' favour.
fn manager(name: &str, cluster: &str, mut filters: Vec<Value>) -> Value {
    filters.push(json!({
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
    }));
    json!({
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": name, "http_filters": filters, "generate_request_id": false,
            "route_config": {"name": name, "virtual_hosts": [{
                "name": name, "domains": ["*"],
                "routes": [{"match": {"prefix": "/"}, "route": {"cluster": cluster, "timeout": "0s"}}],
            }]},
        },
    })
}

/// Nothing but GET of one path, on one port, by one client.
fn rbac(client: &Client<'_>) -> Value {
    let who = match client {
        Client::Identity(name) => json!({"authenticated": {"principal_name": {"exact": name}}}),
        Client::Address(ip) => {
            json!({"direct_remote_ip": {"address_prefix": ip, "prefix_len": 32}})
        }
    };
    json!({
        "name": "envoy.filters.http.rbac",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
            "rules": {"policies": {"get": {
                "permissions": [{"and_rules": {"rules": [
                    {"header": {"name": ":method", "string_match": {"exact": "GET"}}},
                    {"url_path": {"path": {"exact": ALLOWED_PATH}}},
                    {"destination_port": PORT},
                ]}}],
                "principals": [who],
            }}},
        },
    })
}

fn cluster(name: &str, backends: &[Ipv4Addr], tls: Option<Value>) -> Value {
    let endpoints: Vec<Value> = backends
        .iter()
        .map(|ip| json!({"endpoint": {"address": socket(*ip, PORT)}}))
        .collect();
    let mut cluster = json!({
        "name": name, "type": "STATIC", "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    });
    if let Some(tls) = tls {
        cluster["transport_socket"] = tls;
    }
    cluster
}

fn socket(ip: Ipv4Addr, port: u16) -> Value {
    json!({"socket_address": {"address": ip, "port_value": port}})
}

fn original_destination() -> Value {
    json!({
        "name": "envoy.filters.listener.original_dst",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.listener.original_dst.v3.OriginalDst"},
    })
}

/// The `n`th address of a service that nobody asks.
fn other(service: u32, n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a80_0000 + service * 256 + n)
}
