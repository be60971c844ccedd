//! Options of the control plane, in `weft control` and in `weft up`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weft_control::Nodes;
use weft_control::source::kubernetes::Access;

use super::{AgentArgs, CaArgs, MeshArgs, Metrics, Refusal, SecurityArgs};

/// Where the control plane reads the cluster's objects.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// Folder of Kubernetes manifests (*.yaml, *.yml, *.json), watched: a change takes effect at once
    #[arg(long, env = "WEFT_MANIFESTS", value_name = "DIR")]
    pub(crate) manifests: Option<PathBuf>,

    /// Kubernetes API server, as kubectl finds it [default in a pod, without --manifests: the pod's own cluster]
    #[arg(
        long,
        env = "WEFT_KUBECONFIG",
        value_name = "FILE",
        conflicts_with = "manifests"
    )]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Namespace whose objects are read from the API server, repeatable [default: all]
    #[arg(
        long,
        env = "WEFT_NAMESPACES",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub(crate) namespaces: Vec<String>,

    #[command(flatten)]
    pub(crate) mesh: MeshArgs,

    /// Istio's root namespace: its AuthorizationPolicies are for the whole mesh
    #[arg(
        long,
        env = "WEFT_ROOT_NAMESPACE",
        value_name = "NAME",
        default_value = "istio-system"
    )]
    pub(crate) root_namespace: String,

    /// Which nodes have an agent: all but those labelled weft.io/mesh=disabled, or those labelled weft.io/mesh=enabled alone. Pods of
    /// others are sent plain text
    #[arg(
        long,
        env = "WEFT_MESH_NODES",
        value_name = "WHICH",
        value_enum,
        default_value = "all"
    )]
    pub(crate) mesh_nodes: MeshNodes,
}

/// [`Nodes`], as people write it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MeshNodes {
    All,
    Labelled,
}

impl From<MeshNodes> for Nodes {
    fn from(nodes: MeshNodes) -> Self {
        match nodes {
            MeshNodes::All => Self::All,
            MeshNodes::Labelled => Self::Labelled,
        }
    }
}

/// What [`SourceArgs`] lead to.
pub(crate) enum SourcePlace<'a> {
    Folder(&'a PathBuf),
    Kubernetes(Access),
}

impl SourceArgs {
    /// Where the objects are.
    ///
    /// # Errors
    /// That was not said.
    pub(crate) fn place(&self) -> Result<SourcePlace<'_>, Refusal> {
        if let Some(folder) = &self.manifests {
            if self.kubeconfig.is_some() {
                return Err(Refusal::new(
                    "--manifests and --kubeconfig are both given, on the command line, in the environment or in --config: objects come \
                     from one place, so leave one out",
                ));
            }
            if !self.namespaces.is_empty() {
                return Err(Refusal::new(
                    "--namespaces is for an API server: of a folder, everything is read",
                ));
            }
            return Ok(SourcePlace::Folder(folder));
        }
        match &self.kubeconfig {
            Some(file) => Ok(SourcePlace::Kubernetes(Access::Kubeconfig(file.clone()))),
            // Kubernetes gives it to every pod.
            None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
                Ok(SourcePlace::Kubernetes(Access::InCluster))
            }
            None => Err(Refusal::new(
                "--manifests DIR is missing: the folder with the Kubernetes manifests to serve; or give --kubeconfig FILE, \
                     or start it in a pod",
            )),
        }
    }
}

/// Options of `weft control`.
#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Address and port where agents find the ADS service
    #[arg(
        long,
        env = "WEFT_LISTEN",
        value_name = "ADDR:PORT",
        default_value = "0.0.0.0:15010"
    )]
    pub(crate) listen: SocketAddr,

    /// Where /status, /metrics, /healthz and /readyz are served, or "none"
    #[arg(
        long,
        env = "WEFT_METRICS",
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:15021"
    )]
    pub(crate) metrics: Metrics,

    #[command(flatten)]
    pub(crate) ca: CaArgs,

    #[command(flatten)]
    pub(crate) security: SecurityArgs,
}

impl ControlArgs {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.source.place()?;
        self.ca.check()?;
        self.security.server(self.listen).map(|_| ())
    }
}

/// Options of `weft up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    /// Also serve ADS on this address and port, for agents of other nodes [default: in this process only]
    #[arg(long, env = "WEFT_LISTEN", value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) ca: CaArgs,

    #[command(flatten)]
    pub(crate) security: SecurityArgs,
}

impl UpArgs {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.source.place()?;
        self.ca.check()?;
        self.security.check()?;
        self.listen
            .map_or(Ok(()), |address| self.security.server(address).map(|_| ()))
    }
}
