//! A pod of the lab.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::DualStack;
use crate::manifest::PodManifest;
use crate::netns::Netns;
use crate::{Launch, Output, Place, Result};

/// Until a machine that is busy has run a curl.
const CURL_WITHIN: Duration = Duration::from_secs(60);

/// What a pod is to be.
#[derive(Debug, Clone)]
pub struct PodSpec {
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) namespace: String,
    pub(crate) service_account: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) ports: Vec<(String, u16)>,
    pub(crate) addresses: Option<DualStack>,
}

impl PodSpec {
    /// A pod on `node`, in namespace `default` with service account `default`. `name` is unique in the lab.
    pub fn new(name: impl Into<String>, node: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            node: node.into(),
            namespace: "default".into(),
            service_account: "default".into(),
            labels: BTreeMap::new(),
            ports: Vec::new(),
            addresses: None,
        }
    }

    /// Puts it in a Kubernetes namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Gives it a service account.
    pub fn service_account(mut self, account: impl Into<String>) -> Self {
        self.service_account = account.into();
        self
    }

    /// Adds a label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Gives it these addresses, out of its node's pod networks, instead of the first free ones.
    pub fn addresses(mut self, addresses: DualStack) -> Self {
        self.addresses = Some(addresses);
        self
    }

    /// Names a container port, for services that refer to it by name.
    pub fn port(mut self, name: impl Into<String>, port: u16) -> Self {
        self.ports.push((name.into(), port));
        self
    }
}

/// A pod: a network namespace joined to its node, and a cgroup below the node's. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pod {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    spec: PodSpec,
    addresses: DualStack,
    host_link: String,
    netns: Netns,
    place: Place,
}

impl Pod {
    pub(crate) fn new(
        spec: PodSpec,
        addresses: DualStack,
        host_link: String,
        netns: Netns,
        place: Place,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                spec,
                addresses,
                host_link,
                netns,
                place,
            }),
        }
    }

    /// Its name, unique in the lab.
    pub fn name(&self) -> &str {
        &self.inner.spec.name
    }

    /// Its Kubernetes namespace.
    pub fn namespace(&self) -> &str {
        &self.inner.spec.namespace
    }

    /// Name of the node it is on.
    pub fn node(&self) -> &str {
        &self.inner.spec.node
    }

    /// Its addresses.
    pub fn addresses(&self) -> DualStack {
        self.inner.addresses
    }

    /// Its IPv4 address with a port.
    pub fn socket_v4(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.inner.addresses.v4.into(), port)
    }

    /// Its IPv6 address with a port.
    pub fn socket_v6(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.inner.addresses.v6.into(), port)
    }

    /// Its network namespace.
    pub fn netns(&self) -> &Netns {
        &self.inner.netns
    }

    /// Name of the node's end of its link.
    pub fn host_link(&self) -> &str {
        &self.inner.host_link
    }

    /// Where its processes run.
    pub fn place(&self) -> &Place {
        &self.inner.place
    }

    /// Prepares to run `program` in the pod.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Launch {
        self.inner.place.command(program)
    }

    /// Asks for `url` by curl, with further arguments of its own; the status is what it prints, 000 without an answer within two seconds,
    /// and on standard error why.
    ///
    /// # Errors
    /// As [`Launch::run`].
    pub fn http_status(&self, url: &str, args: &[&str]) -> Result<Output> {
        let curl = self.command("curl").args(args);
        let curl = curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}"]);
        curl.args(["--max-time", "2", url]).run(CURL_WITHIN)
    }

    /// The Kubernetes object that describes it, ready.
    pub fn manifest(&self) -> PodManifest {
        let spec = &self.inner.spec;
        let mut manifest = PodManifest::new(&spec.name, &spec.node, self.inner.addresses.both())
            .namespace(&spec.namespace)
            .service_account(&spec.service_account);
        for (key, value) in &spec.labels {
            manifest = manifest.label(key, value);
        }
        for (name, port) in &spec.ports {
            manifest = manifest.port(name, *port);
        }
        manifest
    }
}
