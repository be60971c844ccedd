//! Nodes with an agent and Envoy each that have joined a control plane in a process of its own, on node n2.

use anyhow::Context;
use serde_json::Value;
use weft_lab::{Lab, LabBuilder, Node, Pod, PodSpec, Weft, WeftOptions};

use crate::Result;
use crate::http::service;
use crate::wait::LONG;

/// The control plane's.
const PORT: u16 = 15_010;

/// Nodes n1 and n2 with pods, by name and node, each with a label `app` and a service account of its own.
#[must_use]
pub fn pods(all: &[(&str, &str)]) -> LabBuilder {
    let nodes = Lab::builder().node("n1").node("n2");
    all.iter().fold(nodes, |lab, (name, node)| {
        lab.pod(
            PodSpec::new(*name, *node)
                .label("app", *name)
                .service_account(*name),
        )
    })
}

/// A route: requests to service web go to this one.
#[must_use]
pub fn web_goes_to(service: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: web, namespace: default}}
spec:
  parentRefs: [{{group: '', kind: Service, name: web}}]
  rules: [{{backendRefs: [{{name: {service}, port: 80}}]}}]
"
    )
}

/// The nodes, and services near (1), far (2) and web (3) of the pods with such labels.
pub struct Joined {
    /// One for each node.
    pub agents: Vec<Weft>,
    _control: Weft,
    /// Dropped last.
    pub lab: Lab,
}

impl Joined {
    /// Agents that are ready, with these options for the control plane and for each of them.
    ///
    /// # Errors
    /// When one of them does not start.
    pub fn start(builder: LabBuilder, control: WeftOptions, agent: &WeftOptions) -> Result<Self> {
        let lab = builder.build()?;
        lab.publish()?;
        for (name, index) in [("near", 1), ("far", 2), ("web", 3)] {
            let yaml = service(name, index).yaml();
            lab.manifests().write(&format!("service-{name}"), &yaml)?;
        }
        let node = lab.node("n2")?;
        let control = Weft::control(&node, lab.manifests(), PORT, control)?;
        let address = format!("{}:{PORT}", node.addresses().v4);
        let nodes = lab.nodes().iter();
        let agents: Vec<Weft> = nodes
            .map(|node| Weft::agent(node, &address, agent.clone()))
            .collect::<Result<_, _>>()?;
        for agent in &agents {
            agent.wait_ready(LONG)?;
        }
        Ok(Self {
            agents,
            _control: control,
            lab,
        })
    }

    /// A pod.
    ///
    /// # Errors
    /// When there is none.
    pub fn pod(&self, name: &str) -> Result<Pod> {
        Ok(self.lab.pod(name)?)
    }

    /// A node.
    ///
    /// # Errors
    /// When there is none.
    pub fn node(&self, name: &str) -> Result<Node> {
        Ok(self.lab.node(name)?)
    }

    /// Writes a manifest file.
    ///
    /// # Errors
    /// When that fails.
    pub fn apply(&self, file: &str, text: &str) -> Result {
        Ok(self.lab.manifests().write(file, text)?)
    }

    /// The agent of a node.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn agent(&self, node: &str) -> Result<&Weft> {
        let found = self.agents.iter().find(|a| a.node().name() == node);
        found.with_context(|| format!("no node {node}"))
    }

    /// What `weft flows` says on a node, with more arguments.
    ///
    /// # Errors
    /// When the agent does not answer.
    pub fn flows(&self, node: &str, args: &[&str]) -> Result<Vec<Value>> {
        let words = [&["flows", "--last", "500", "-o", "json"], args].concat();
        Ok(self.agent(node)?.cli(&words)?.json_lines()?)
    }
}
