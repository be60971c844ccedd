//! What control plane and node agent have in common: the wire types, the domain model, and the conversions between them.
//!
//! * [`model`] knows nothing of protobuf: services, clusters, endpoints, workloads, problems.
//! * [`convert`] turns each into its xDS resource and back, and says which field stands in the way.
//! * [`wire`] has Weft's own messages, generated; Envoy's come from the `envoy-types` crate.
#![forbid(unsafe_code)]

pub mod convert;
pub mod model;
pub mod resource;
pub mod time;

pub use envoy_types::pb as envoy;

/// Generated code of Weft's own protocol packages.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod wire {
    pub mod workload {
        pub mod v1 {
            tonic::include_proto!("weft.workload.v1");
        }
    }
    pub mod policy {
        pub mod v1 {
            tonic::include_proto!("weft.policy.v1");
        }
    }
    pub mod status {
        pub mod v1 {
            tonic::include_proto!("weft.status.v1");
        }
    }
    pub mod flow {
        pub mod v1 {
            tonic::include_proto!("weft.flow.v1");
        }
    }
    pub mod admin {
        pub mod v1 {
            tonic::include_proto!("weft.admin.v1");
        }
    }
    /// Istio's certificate service, as any CA may offer it.
    pub mod certificates {
        pub mod v1 {
            tonic::include_proto!("istio.v1.auth");
        }
    }
}
