//! A whole cluster.

use std::net::IpAddr;

use super::{
    AuthorizationPolicy, ClusterNetworkPolicy, Document, Labels, Namespace, NetworkPolicy, Node,
    Object, Pod,
};

/// The label that the API server gives each namespace: its name.
///
/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/#automatic-labelling>
pub const METADATA_NAME: &str = "kubernetes.io/metadata.name";

/// All objects that decide who may talk to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// In any order, as all.
    pub namespaces: Vec<Namespace>,
    /// Machines.
    pub nodes: Vec<Node>,
    /// Workloads.
    pub pods: Vec<Pod>,
    /// `networking.k8s.io/v1`.
    pub network_policies: Vec<NetworkPolicy>,
    /// `policy.networking.k8s.io/v1alpha2`.
    pub cluster_network_policies: Vec<ClusterNetworkPolicy>,
    /// `security.istio.io/v1`.
    pub authorization_policies: Vec<AuthorizationPolicy>,
}

impl Cluster {
    /// The labels of a namespace.
    #[must_use]
    pub fn namespace_labels(&self, name: &str) -> Labels {
        let mut labels = self
            .namespaces
            .iter()
            .find(|n| n.metadata.name == name)
            .map(|n| n.metadata.labels.clone())
            .unwrap_or_default();
        labels.insert(METADATA_NAME.to_owned(), name.to_owned());
        labels
    }

    /// The pod that has this address to itself.
    #[must_use]
    pub fn pod_at(&self, address: IpAddr) -> Option<&Pod> {
        self.pods.iter().find(|p| p.owns(address))
    }

    /// The node that has this address.
    #[must_use]
    pub fn node_at(&self, address: IpAddr) -> Option<&Node> {
        self.nodes.iter().find(|n| n.has(address))
    }

    /// As they would stand in a file.
    #[must_use]
    pub fn documents(&self) -> Vec<Document> {
        let all = (self.namespaces.iter().cloned().map(Object::Namespace))
            .chain(self.nodes.iter().cloned().map(Object::Node))
            .chain(self.pods.iter().cloned().map(Object::Pod))
            .chain(
                self.network_policies
                    .iter()
                    .cloned()
                    .map(Object::NetworkPolicy),
            )
            .chain(
                self.cluster_network_policies
                    .iter()
                    .cloned()
                    .map(Object::ClusterNetworkPolicy),
            )
            .chain(
                self.authorization_policies
                    .iter()
                    .cloned()
                    .map(Object::AuthorizationPolicy),
            );
        all.map(Object::document).collect()
    }
}

impl FromIterator<Document> for Cluster {
    fn from_iter<T: IntoIterator<Item = Document>>(documents: T) -> Self {
        let mut cluster = Self::default();
        for document in documents {
            match document.object {
                Object::Namespace(o) => cluster.namespaces.push(o),
                Object::Node(o) => cluster.nodes.push(o),
                Object::Pod(o) => cluster.pods.push(o),
                Object::NetworkPolicy(o) => cluster.network_policies.push(o),
                Object::ClusterNetworkPolicy(o) => cluster.cluster_network_policies.push(o),
                Object::AuthorizationPolicy(o) => cluster.authorization_policies.push(o),
            }
        }
        cluster
    }
}
