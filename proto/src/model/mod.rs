//! The domain: what a service mesh node has to know, free of any wire format.

mod api_listener;
mod cluster;
mod endpoint;
pub mod inbound;
mod listener;
mod mtls;
pub mod policy;
mod policy_text;
mod problem;
mod resource;
pub mod route;
mod tunnel;
mod workload;

pub use api_listener::ApiListener;
pub use cluster::{Cluster, EndpointSource, LbPolicy, LocalityMode, Outlier};
pub use endpoint::{ClusterEndpoints, Endpoint, Health, Locality};
pub use inbound::{Guard, Inbound};
pub use listener::{Layer, Listener, ParseProtocolError, Protocol, ServiceRef, Side};
pub use mtls::{Mtls, MtlsMode};
pub use policy::Policy;
pub use problem::{Problem, Severity};
pub use resource::Resource;
pub use route::RouteTable;
pub use tunnel::{TUNNEL_PREFIX, TunnelCluster, TunnelListener, TunnelSide};
pub use workload::{NamedPort, Workload, WorkloadKind};
