//! What Envoy is started with: where it listens for what is handed to it, where its control plane is, and how much it may use.

use std::path::Path;

use serde_json::{Value, json};

/// `PROXY_PORT` of bpf/include/abi/proxy.h.
pub const CAPTURE_PORT: u16 = 15_001;

/// As in bpf/include/abi/proxy.h.
const MARK_BY_PROXY: u32 = 0x5eed_0001;
const MARK_EMERGED: u32 = 0x5eed_0004;
const MARK_ADMITTED: u32 = 0x5eed_0002;

/// Past this Envoy takes no more requests; before that it gives memory back.
const MAX_HEAP_BYTES: u64 = 1 << 30;
const MAX_CONNECTIONS: u64 = 100_000;
/// Steps of a compiled regular expression. Envoy's own limit of 100 is too little for `[a-z]{1,64}`, and an expression over the limit costs
/// the whole route configuration. RE2 takes linear time whatever the size. Weft's control plane lets 10,000 through; other servers have
/// other limits.
const MAX_REGEX_STEPS: u32 = 32_768;

/// Everything that differs from node to node.
#[derive(Clone, Copy, Debug)]
pub struct Bootstrap<'a> {
    /// Name of this node.
    pub node: &'a str,
    /// Unix socket of the control plane.
    pub control: &'a Path,
    /// Unix socket where Envoy is to be asked how it is.
    pub admin: &'a Path,
    /// The node has IPv6: an Envoy that cannot listen at one of its addresses does not start.
    pub ipv6: bool,
}

impl Bootstrap<'_> {
    /// The configuration, as Envoy reads it from a file.
    #[must_use]
    pub fn config(&self) -> Value {
        let mut listeners = vec![capture("weft.capture4", "127.0.0.1")];
        if self.ipv6 {
            listeners.push(capture("weft.capture6", "::1"));
        }
        json!({
            "node": {"id": format!("{}/envoy", self.node), "cluster": "weft"},
            "admin": {"address": {"pipe": {"path": self.admin, "mode": 0o600}}},
            "dynamic_resources": {
                "ads_config": {
                    "api_type": "DELTA_GRPC",
                    "transport_api_version": "V3",
                    "grpc_services": [{"envoy_grpc": {"cluster_name": "weft.control"}}],
                },
                "cds_config": ads(),
                "lds_config": ads(),
            },
            "static_resources": {
                "listeners": listeners,
                "clusters": [
                    self.control_cluster(),
                    refused_cluster(),
                    inbound_cluster(),
                    emerged_cluster(),
                ],
            },
            "cluster_manager": {"upstream_bind_config": {"socket_options": [mark(MARK_BY_PROXY)]}},
            "overload_manager": overload_manager(),
            "layered_runtime": {"layers": [{"name": "limits", "static_layer": {
                "re2.max_program_size.error_level": MAX_REGEX_STEPS,
            }}]},
            "stats_config": {"stats_matcher": {"exclusion_list": {"patterns": [
                // By the thousand, one for each route and endpoint, and nobody reads them.
                {"prefix": "vhost."},
            ]}}},
        })
    }

    fn control_cluster(&self) -> Value {
        json!({
            "name": "weft.control",
            "type": "STATIC",
            "connect_timeout": "5s",
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": {"http2_protocol_options": {
                        "connection_keepalive": {"interval": "20s", "timeout": "10s"},
                    }},
                },
            },
            "load_assignment": {"cluster_name": "weft.control", "endpoints": [{"lb_endpoints": [{
                "endpoint": {"address": {"pipe": {"path": self.control}}},
            }]}]},
        })
    }
}

fn ads() -> Value {
    // Without a control plane Envoy serves what it has; that is nothing only at its first start.
    json!({"resource_api_version": "V3", "ads": {}, "initial_fetch_timeout": "15s"})
}

/// Takes what the kernel hands over and gives it to the listener that has its original destination, which binds to no port. On a loopback
/// address: nobody else's packets get here.
fn capture(name: &str, address: &str) -> Value {
    json!({
        "name": name,
        "address": {"socket_address": {"address": address, "port_value": CAPTURE_PORT}},
        "transparent": true,
        "use_original_dst": true,
        "listener_filters": [{
            "name": "envoy.filters.listener.original_dst",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.listener.original_dst.v3.OriginalDst",
            },
        }],
        // For what no listener wants, as it has just been removed.
        "filter_chains": [{"filters": [{
            "name": "envoy.filters.network.tcp_proxy",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                "stat_prefix": "weft.refused",
                "cluster": "weft.refused",
            },
        }]}],
    })
}

/// On what Envoy opens, in the name of a client or in its own.
fn mark(mark: u32) -> Value {
    const SOL_SOCKET: u8 = 1;
    const SO_MARK: u8 = 36;
    json!({
        "description": "what Envoy opens",
        "level": SOL_SOCKET,
        "name": SO_MARK,
        "int_value": mark,
        "state": "STATE_PREBIND",
    })
}

/// Where the client of a connection to a local pod wanted to go: what policies have let through, and the kernel knows by this mark.
fn inbound_cluster() -> Value {
    json!({
        "name": "weft.inbound",
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "5s",
        "upstream_bind_config": {"socket_options": [mark(MARK_ADMITTED)]},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "common_http_protocol_options": {"idle_timeout": "60s"},
                "use_downstream_protocol_config": {
                    "http_protocol_options": {},
                    "http2_protocol_options": {},
                },
            },
        },
    })
}

fn refused_cluster() -> Value {
    json!({
        "name": "weft.refused",
        "type": "STATIC",
        "load_assignment": {"cluster_name": "weft.refused"},
    })
}

/// Whatever a tunnel's CONNECT request names. The kernel lets Envoy reach pods of this node there, and nobody else.
fn emerged_cluster() -> Value {
    json!({
        "name": "weft.emerged",
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "5s",
        "original_dst_lb_config": {"use_http_header": true, "http_header_name": ":authority"},
        "upstream_bind_config": {"socket_options": [mark(MARK_EMERGED)]},
    })
}

fn overload_manager() -> Value {
    let above = |monitor: &str, value: f64| json!({"name": monitor, "threshold": {"value": value}});
    const HEAP: &str = "envoy.resource_monitors.fixed_heap";
    json!({
        "refresh_interval": "1s",
        "resource_monitors": [
            {"name": HEAP, "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
                "max_heap_size_bytes": MAX_HEAP_BYTES,
            }},
            {"name": "envoy.resource_monitors.global_downstream_max_connections", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
                "max_active_downstream_connections": MAX_CONNECTIONS,
            }},
        ],
        "actions": [
            {"name": "envoy.overload_actions.shrink_heap", "triggers": [above(HEAP, 0.9)]},
            {"name": "envoy.overload_actions.stop_accepting_requests", "triggers": [above(HEAP, 0.95)]},
        ],
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    fn envoy() -> PathBuf {
        let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/envoy/envoy");
        let path = std::env::var_os("WEFT_TEST_ENVOY").map_or(installed, PathBuf::from);
        assert!(
            path.exists(),
            "no Envoy at {}: run scripts/install-envoy, or name one in WEFT_TEST_ENVOY",
            path.display()
        );
        path
    }

    #[test]
    fn a_real_envoy_takes_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("bootstrap.json");
        let bootstrap = Bootstrap {
            node: "n1",
            control: &folder.path().join("control.sock"),
            admin: &folder.path().join("admin.sock"),
            ipv6: true,
        };
        std::fs::write(&file, bootstrap.config().to_string()).expect("a file");
        let output = Command::new(envoy())
            .args(["--mode", "validate", "--config-path"])
            .arg(&file)
            .output()
            .expect("Envoy runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("eprecated"), "{said}");
    }

    #[test]
    fn nobody_reaches_it_from_outside() {
        let bootstrap = Bootstrap {
            node: "n1",
            control: Path::new("/c"),
            admin: Path::new("/a"),
            ipv6: true,
        };
        let config = bootstrap.config();
        let listeners = config["static_resources"]["listeners"].as_array();
        for listener in listeners.expect("listeners") {
            let address = listener["address"]["socket_address"]["address"].as_str();
            let address: std::net::IpAddr =
                address.unwrap_or_default().parse().expect("an address");
            assert!(address.is_loopback(), "{address}");
        }
        assert!(config["admin"]["address"].get("pipe").is_some(), "{config}");
    }
}
