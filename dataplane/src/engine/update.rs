//! What goes into the engine and what comes back.

use std::sync::Arc;
use std::time::Duration;

use weft_proto::model::{
    Cluster, EndpointSource, LbPolicy, Listener, LocalityMode, Outlier, Policy, Problem, Resource,
    Workload,
};
use weft_proto::resource::ResourceType;

use crate::compile::{LocalityPool, NodeEndpoint};

/// A resource as the node keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeResource {
    /// Load-balancing settings.
    Cluster(NodeCluster),
    /// Endpoints, sorted by address.
    Endpoints(Vec<NodeEndpoint>),
    /// A service port.
    Listener(Listener),
    /// Who may talk to whom.
    Policy(Policy),
    /// A pod or node.
    Workload(Workload),
    /// Something to mend.
    Problem(Problem),
}

impl NodeResource {
    /// The compact form of `resource`; `None`: it is Envoy's business.
    #[must_use]
    pub fn new(resource: Resource, pool: &mut LocalityPool) -> Option<Self> {
        Some(match resource {
            Resource::Routes(_)
            | Resource::ApiListener(_)
            | Resource::ClientRoutes(_)
            | Resource::Inbound(_)
            | Resource::Guard(_)
            | Resource::TunnelCluster(_)
            | Resource::TunnelListener(_) => return None,
            Resource::Cluster(c) => Self::Cluster(NodeCluster::new(c, pool)),
            Resource::Endpoints(e) => Self::Endpoints(pool.compact(e.endpoints)),
            Resource::Listener(l) => Self::Listener(l),
            Resource::Policy(p) => Self::Policy(p),
            Resource::Workload(w) => Self::Workload(w),
            Resource::Problem(p) => Self::Problem(p),
        })
    }
}

/// [`Cluster`] with its endpoints in compact form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCluster {
    /// Where its endpoints come from.
    pub source: NodeEndpointSource,
    /// Backend choice.
    pub policy: LbPolicy,
    /// A client keeps its backend for this long after its last new connection.
    pub affinity: Option<Duration>,
    /// Endpoints near the client.
    pub locality: LocalityMode,
    /// A handshake that takes longer fails.
    pub connect_timeout: Option<Duration>,
    /// Open connections from this node.
    pub max_connections: Option<u32>,
    /// When endpoints that fail are left out for a while.
    pub outlier: Option<Outlier>,
    /// Its connections stay with TCP where they could go from socket to socket.
    pub unaccelerated: bool,
}

/// Where a [`NodeCluster`]'s endpoints come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEndpointSource {
    /// The endpoints resource of this name.
    Eds(Arc<str>),
    /// These.
    Static(Vec<NodeEndpoint>),
}

impl NodeCluster {
    fn new(cluster: Cluster, pool: &mut LocalityPool) -> Self {
        Self {
            source: match cluster.endpoints {
                EndpointSource::Eds(name) => NodeEndpointSource::Eds(name.into()),
                EndpointSource::Static(list) => NodeEndpointSource::Static(pool.compact(list)),
            },
            policy: cluster.policy,
            affinity: cluster.affinity,
            locality: cluster.locality,
            connect_timeout: cluster.connect_timeout,
            max_connections: cluster.max_connections,
            outlier: cluster.outlier,
            unaccelerated: cluster.unaccelerated,
        }
    }
}

/// One response of the control plane, decoded.
#[derive(Clone, Debug)]
pub struct Update {
    /// Of which type everything here is.
    pub resource_type: ResourceType,
    /// Added or changed, by resource name.
    pub upserts: Vec<(String, NodeResource)>,
    /// No longer there. Unknown names are no error.
    pub removals: Vec<String>,
    /// Whether everything of this type goes that stands neither in `upserts` nor in `rejected` (state of the world).
    pub replace: bool,
    /// Could not be decoded; the last good state of these stays.
    pub rejected: Vec<Rejection>,
    /// What is in effect for those of them that are policies and have no last good state, by resource name.
    pub closed: Vec<(String, Vec<Policy>)>,
}

impl Update {
    /// An update without content.
    #[must_use]
    pub fn new(resource_type: ResourceType) -> Self {
        Self {
            resource_type,
            upserts: Vec::new(),
            removals: Vec::new(),
            replace: false,
            rejected: Vec::new(),
            closed: Vec::new(),
        }
    }
}

/// A resource that is not, or not wholly, in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Name of the resource, or where it stood in the response if that could not be read.
    pub name: String,
    /// What is wrong and what would be accepted.
    pub reason: String,
}

/// What became of an [`Update`], once the tables are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Every resource of the update that is not wholly in effect; all others are.
    pub rejected: Vec<Rejection>,
    /// Names of endpoints that clusters ask for since this update.
    pub subscribe: Vec<String>,
    /// Names of endpoints that no cluster asks for any more; the engine has dropped them.
    pub unsubscribe: Vec<String>,
}
