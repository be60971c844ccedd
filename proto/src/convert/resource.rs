//! Resources of any type, packed in `google.protobuf.Any`.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::google::protobuf::Any;

use super::{
    ConvertError, decode_cluster, decode_endpoints, decode_listener, decode_policy, decode_problem,
    decode_workload, encode_api_listener, encode_client_routes, encode_cluster, encode_endpoints,
    encode_guard, encode_inbound, encode_listener, encode_policy, encode_problem, encode_routes,
    encode_tunnel_cluster, encode_tunnel_listener, encode_workload, pack, unpack,
};
use crate::model::Resource;
use crate::resource::ResourceType;
use crate::wire;

/// Packs a resource.
#[must_use]
pub fn encode(resource: &Resource) -> Any {
    match resource {
        Resource::Cluster(c) => pack(&encode_cluster(c)),
        Resource::Endpoints(e) => pack(&encode_endpoints(e)),
        Resource::Listener(l) => pack(&encode_listener(l)),
        Resource::Policy(p) => pack(&encode_policy(p)),
        Resource::Workload(w) => pack(&encode_workload(w)),
        Resource::Routes(r) => pack(&encode_routes(r)),
        Resource::ApiListener(l) => pack(&encode_api_listener(l)),
        Resource::ClientRoutes(r) => pack(&encode_client_routes(r)),
        Resource::TunnelCluster(c) => pack(&encode_tunnel_cluster(c)),
        Resource::TunnelListener(l) => pack(&encode_tunnel_listener(l)),
        Resource::Inbound(i) => pack(&encode_inbound(i)),
        Resource::Guard(g) => pack(&encode_guard(g)),
        Resource::Problem(p) => pack(&encode_problem(p)),
    }
}

/// Unpacks a resource of the expected type.
///
/// # Errors
/// Another type, bytes that are not that type, or a message that the mesh cannot honour.
pub fn decode(expected: ResourceType, any: &Any) -> Result<Resource, ConvertError> {
    if any.type_url != expected.type_url() {
        return Err(ConvertError::new(
            "type_url",
            format!("is {:?} in a response for {expected}", any.type_url),
        ));
    }
    Ok(match expected {
        ResourceType::Cluster => Resource::Cluster(decode_cluster(&unpack::<Cluster>(any, "")?)?),
        ResourceType::Endpoints => Resource::Endpoints(decode_endpoints(&unpack::<
            ClusterLoadAssignment,
        >(any, "")?)?),
        ResourceType::Listener => {
            Resource::Listener(decode_listener(&unpack::<Listener>(any, "")?)?)
        }
        ResourceType::Policy => {
            let pb = unpack::<wire::policy::v1::Policy>(any, "")?;
            Resource::Policy(decode_policy(&pb)?)
        }
        ResourceType::Workload => {
            let pb = unpack::<wire::workload::v1::Workload>(any, "")?;
            Resource::Workload(decode_workload(&pb)?)
        }
        ResourceType::Route => {
            return Err(ConvertError::new(
                "type_url",
                "routes are for Envoy: the kernel has no use for them",
            ));
        }
        ResourceType::Problem => {
            let pb = unpack::<wire::status::v1::Problem>(any, "")?;
            Resource::Problem(decode_problem(&pb)?)
        }
    })
}
