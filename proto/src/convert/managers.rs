//! Changes what is about requests in a listener that somebody else has made.

use envoy_types::pb::envoy::config::listener::v3::{Listener, filter};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::google::protobuf::Any;
use prost::Name;

use super::{pack, unpack};

/// What carries tunnels sees no requests.
const TUNNEL: &str = "weft.tunnel";
/// What stands in for servers.
const INBOUND: &str = "weft.inbound";

/// For whom an Envoy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Routes of a service, on the client's node.
    Client,
    /// Policies about requests, on the server's node.
    Server,
}

/// `resource` after `change` has seen what handles requests in it; as it is, if it is no such listener or cannot be read. True: it has
/// changed something.
pub(super) fn change(
    resource: Any,
    mut change: impl FnMut(&Listener, Side, &mut HttpConnectionManager) -> bool,
) -> Any {
    if resource.type_url != Listener::type_url() {
        return resource;
    }
    let Ok(mut listener) = unpack::<Listener>(&resource, "") else {
        return resource;
    };
    let mut chains = std::mem::take(&mut listener.filter_chains);
    let mut rest = listener.default_filter_chain.take();
    let mut is_changed = false;
    for filter in chains
        .iter_mut()
        .chain(&mut rest)
        .flat_map(|c| &mut c.filters)
    {
        let Some(filter::ConfigType::TypedConfig(any)) = &mut filter.config_type else {
            continue;
        };
        if any.type_url != HttpConnectionManager::type_url() {
            continue;
        }
        let Ok(mut manager) = unpack::<HttpConnectionManager>(any, "") else {
            continue;
        };
        let side = match manager.stat_prefix.as_str() {
            TUNNEL => continue,
            INBOUND => Side::Server,
            _ => Side::Client,
        };
        if change(&listener, side, &mut manager) {
            *any = pack(&manager);
            is_changed = true;
        }
    }
    listener.filter_chains = chains;
    listener.default_filter_chain = rest;
    if is_changed {
        pack(&listener)
    } else {
        resource
    }
}
