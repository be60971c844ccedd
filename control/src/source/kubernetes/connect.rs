//! How to reach an API server.

use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

/// Patience with the handshakes of a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Patience with silence on a request. Watches are silent for as long as nothing changes: the server ends them before this.
const READ: Duration = Duration::from_secs(310);

/// Where the address of the API server and the right to ask it come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// A kubeconfig file; its current context.
    Kubeconfig(PathBuf),
    /// What Kubernetes puts into every pod: variables, token and CA certificate of its service account.
    InCluster,
}

/// Why an API server cannot even be asked.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("kubeconfig {path}: {source}: give a file as kubectl uses it")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: kube::config::KubeconfigError,
    },
    /// This process is not in a pod, or the pod has no service account token.
    #[error(
        "this is not a pod with a service account ({0}): give --kubeconfig FILE or --manifests DIR"
    )]
    NotInCluster(kube::config::InClusterError),
    /// Certificates or addresses that make no client.
    #[error("cannot make a client of the Kubernetes API: {0}")]
    Client(#[from] kube::Error),
}

impl Access {
    /// A client. Does not talk to the server yet.
    ///
    /// # Errors
    /// When what it says cannot be used.
    pub async fn client(&self) -> Result<Client, ConnectError> {
        let mut config = match self {
            Self::Kubeconfig(path) => kubeconfig(path.clone()).await?,
            Self::InCluster => Config::incluster().map_err(ConnectError::NotInCluster)?,
        };
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(READ);
        Ok(Client::try_from(config)?)
    }
}

async fn kubeconfig(path: PathBuf) -> Result<Config, ConnectError> {
    let read = async {
        let file = Kubeconfig::read_from(&path)?;
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await
    };
    read.await
        .map_err(|source| ConnectError::Kubeconfig { path, source })
}
