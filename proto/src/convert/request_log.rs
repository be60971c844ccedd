//! Has an Envoy tell its agent of every request, for metrics: its access log, added by the agent that wants it.
//!
//! See <https://www.envoyproxy.io/docs/envoy/latest/api-v3/extensions/access_loggers/grpc/v3/als.proto>.

use std::time::Duration;

use envoy_types::pb::google::protobuf::Any;

use super::access_log;
use super::managers::{self, Side};

/// Name of the log of requests that routes have sent on, on the client's node.
pub const OF_CLIENTS: &str = "weft.requests.clients";
/// Name of the log of requests that policies have judged, on the server's node.
pub const OF_SERVERS: &str = "weft.requests.servers";

/// Told together.
const GATHER: Duration = Duration::from_secs(1);

/// `resource` with a log of all requests, if it is a listener of layer 7; else as it is.
#[must_use]
pub fn with_log(resource: Any) -> Any {
    managers::change(resource, |_, side, manager| {
        let name = match side {
            Side::Client => OF_CLIENTS,
            Side::Server => OF_SERVERS,
        };
        manager.access_log.push(access_log::log(name, GATHER, None));
        true
    })
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::accesslog::v3::access_log::ConfigType as LogType;
    use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter};
    use envoy_types::pb::envoy::extensions::access_loggers::grpc::v3::HttpGrpcAccessLogConfig;
    use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;

    use super::*;
    use crate::convert::{pack, unpack};

    fn listener(manager: &HttpConnectionManager) -> Any {
        let filter = Filter {
            name: "http".to_owned(),
            config_type: Some(filter::ConfigType::TypedConfig(pack(manager))),
        };
        pack(&Listener {
            default_filter_chain: Some(FilterChain {
                filters: vec![filter],
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    fn manager(prefix: &str) -> HttpConnectionManager {
        HttpConnectionManager {
            stat_prefix: prefix.to_owned(),
            access_log: vec![access_log::refusals()],
            ..Default::default()
        }
    }

    /// Names of the logs that a listener has.
    fn logs(resource: &Any) -> Vec<String> {
        let listener: Listener = unpack(resource, "").expect("a listener");
        let chain = listener.default_filter_chain.expect("a chain");
        let Some(filter::ConfigType::TypedConfig(any)) = &chain.filters[0].config_type else {
            panic!("{chain:?}");
        };
        let manager: HttpConnectionManager = unpack(any, "").expect("a manager");
        let name = |config: LogType| {
            let LogType::TypedConfig(any) = config;
            let config: HttpGrpcAccessLogConfig = unpack(&any, "").expect("a log");
            config.common_config.expect("what all have").log_name
        };
        let logs = manager.access_log.into_iter();
        logs.filter_map(|log| log.config_type.map(name)).collect()
    }

    #[test]
    fn each_side_has_a_log_beside_that_of_refusals() {
        for (prefix, name) in [("shop/web", OF_CLIENTS), ("weft.inbound", OF_SERVERS)] {
            let logged = with_log(listener(&manager(prefix)));
            assert_eq!(logs(&logged), ["weft.refusals", name]);
        }
        let tunnel = listener(&manager("weft.tunnel"));
        assert_eq!(with_log(tunnel.clone()), tunnel);
    }
}
