//! Just enough of Kubernetes for kube-proxy: etcd and kube-apiserver, real ones,
//! on a node of their own.

use std::path::{Path, PathBuf};

use anyhow::Result;
use weft_cluster::{Options, User};
use weft_lab::{Lab, Node};

use crate::interrupt;
use crate::objects;
use crate::plan::{Plan, SERVICE_CIDR};

const SERVICES: &str = "/api/v1/namespaces/bench/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/bench/endpointslices";

/// A running control plane; ends, with its data, when dropped.
pub struct ControlPlane(weft_cluster::ControlPlane);

impl ControlPlane {
    /// Starts one on `node`, with programs from `bin`.
    pub fn start(lab: &Lab, node: &Node, bin: &Path) -> Result<Self> {
        let options = Options {
            service_cidr: SERVICE_CIDR,
            rbac: false,
            interrupted: &interrupt::check,
        };
        Ok(Self(weft_cluster::ControlPlane::start(
            lab, node, bin, &options,
        )?))
    }

    /// What kube-proxy reaches it with.
    pub fn kubeconfig(&self) -> PathBuf {
        self.0.kubeconfig(User::Admin)
    }

    /// Writes the plan's services and endpoints, and `nodes`.
    pub fn load(&self, plan: &Plan, nodes: &[Node]) -> Result<()> {
        let api = self.0.api();
        api.create("/api/v1/namespaces", &objects::namespace())?;
        for node in nodes {
            let object = objects::node(node.name(), &[node.addresses().v4.into()]);
            api.create("/api/v1/nodes", &object)?;
        }
        api.create(SERVICES, &objects::moving_service(plan))?;
        api.create(SLICES, &objects::moving_slice(plan, 0))?;
        api.create_all(SERVICES, plan.services, |index| {
            objects::service(plan, index)
        })?;
        api.create_all(SLICES, plan.services, |index| objects::slice(plan, index))
    }

    /// Moves the service that moves to its backend after `changes` changes.
    pub fn move_service(&self, plan: &Plan, changes: u32) -> Result<()> {
        let path = format!("{SLICES}/{}", objects::MOVING);
        self.0
            .api()
            .replace(&path, &objects::moving_slice(plan, changes))?;
        Ok(())
    }
}
