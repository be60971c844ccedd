//! Just enough of Kubernetes for kube-proxy: etcd and kube-apiserver, real ones,
//! on a node of their own.

mod api;
mod pki;
mod server;

pub use api::Api;
pub use server::ControlPlane;
