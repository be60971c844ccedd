//! The CA in a cluster: its files in a Secret that all replicas share, and what it vouches with in a ConfigMap that agents mount.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Authority, CaConfig, CaError};
use crate::source::kubernetes::Kubernetes;

/// Key of the ConfigMap.
const BUNDLE: &str = "ca.pem";
const MANAGER: &str = "weft.io/controller";
/// Until the API server takes it.
const RETRY: Duration = Duration::from_secs(5);

/// Why there is no CA.
#[derive(Debug, thiserror::Error)]
pub enum ClusterCaError {
    /// The CA itself.
    #[error(transparent)]
    Ca(#[from] CaError),
    /// The Secret cannot be read or made.
    #[error("Secret {name} with the mesh CA: {source}")]
    Secret {
        /// Its name.
        name: String,
        /// What the API server says.
        source: Box<kube::Error>,
    },
    /// The folder for its files cannot be used.
    #[error("CA file {path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A key of the Secret is no file name.
    #[error(
        "Secret {0} with the mesh CA has keys that are not names of CA files (root.pem, intermediate-key.pem, ...)"
    )]
    Keys(String),
}

impl Authority {
    /// The CA whose files are in the Secret `name`, in the client's own namespace; one of its own is made if there is no such
    /// Secret. The first of several replicas makes it.
    ///
    /// # Errors
    /// When the Secret or the files cannot be used.
    pub async fn of_secret(
        config: CaConfig,
        kubernetes: &Kubernetes,
        name: &str,
    ) -> Result<Arc<Self>, ClusterCaError> {
        let secrets: Api<Secret> = Api::default_namespaced(kubernetes.client());
        let failed = |source: kube::Error| ClusterCaError::Secret {
            name: name.to_owned(),
            source: Box::new(source),
        };
        if let Some(secret) = secrets.get_opt(name).await.map_err(failed)? {
            restore(&config.dir, name, secret)?;
            return Ok(Self::open(config)?);
        }
        let made = Self::open(config.clone())?;
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some("weft.io/ca".to_owned()),
            data: Some(read(&config.dir)?),
            ..Secret::default()
        };
        match secrets.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(made),
            // Another replica was faster: its CA is the mesh's.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                drop(made);
                let secret = secrets.get(name).await.map_err(failed)?;
                restore(&config.dir, name, secret)?;
                Ok(Self::open(config)?)
            }
            Err(source) => Err(failed(source)),
        }
    }

    /// Writes the bundle into the ConfigMap `name`, in the client's own namespace, now and whenever it changes, until `drain` is
    /// cancelled.
    pub async fn publish_in_cluster(
        self: Arc<Self>,
        kubernetes: Kubernetes,
        name: String,
        drain: CancellationToken,
    ) {
        let mut bundle = self.bundle();
        let publish = async {
            loop {
                let pem = bundle.borrow_and_update().pem();
                while let Err(error) = write_bundle(kubernetes.client(), &name, &pem).await {
                    tracing::error!("ConfigMap {name} with the CA bundle is not written: {error}");
                    tokio::time::sleep(RETRY).await;
                }
                if bundle.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = publish => {}
            () = drain.cancelled() => {}
        }
    }
}

async fn write_bundle(client: Client, name: &str, pem: &str) -> kube::Result<()> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {BUNDLE: pem},
    });
    let parameters = PatchParams::apply(MANAGER).force();
    maps.patch(name, &parameters, &Patch::Apply(map)).await?;
    Ok(())
}

/// The CA's files.
fn read(dir: &Path) -> Result<BTreeMap<String, ByteString>, ClusterCaError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ClusterCaError::Io { path, source }
    };
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(failed(dir))? {
        let entry = entry.map_err(failed(dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".pem") {
            let content = fs::read(entry.path()).map_err(failed(&entry.path()))?;
            files.insert(name, ByteString(content));
        }
    }
    Ok(files)
}

/// Puts the CA's files where [`Authority::open`] finds them, in place of all that were there.
fn restore(dir: &Path, name: &str, secret: Secret) -> Result<(), ClusterCaError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ClusterCaError::Io { path, source }
    };
    let data = secret.data.unwrap_or_default();
    let plain = |c: char| c.is_ascii_lowercase() || c == '-';
    let is_file = |key: &str| {
        key.strip_suffix(".pem")
            .is_some_and(|k| !k.is_empty() && k.chars().all(plain))
    };
    if data.is_empty() || !data.keys().all(|key| is_file(key)) {
        return Err(ClusterCaError::Keys(name.to_owned()));
    }
    for stale in read(dir).unwrap_or_default().into_keys() {
        let path = dir.join(stale);
        fs::remove_file(&path).map_err(failed(&path))?;
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(failed(dir))?;
    for (key, content) in data {
        let path = dir.join(key);
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(&path);
        let mut file = opened.map_err(failed(&path))?;
        file.write_all(&content.0).map_err(failed(&path))?;
    }
    Ok(())
}
