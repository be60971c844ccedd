//! The mesh's certificate authority: a root, an intermediate that issues, and short-lived certificates for workloads (X.509-SVIDs) and for the
//! control plane itself.
//!
//! It lives in a folder of files ([`folder`]), its own or brought by somebody. Files that change take effect without restart; what cannot be used
//! is told, and the last good state stays.

mod check;
mod cluster;
mod folder;
mod issue;
mod make;
mod material;
mod publish;
mod residents;
mod rotate;
mod service;
mod status;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use time::OffsetDateTime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_identity::sds::{Secrets, SecretsReceiver};
use weft_identity::{TrustBundle, TrustDomain, secret};

pub use check::Unfit;
pub use cluster::ClusterCaError;
pub use folder::FolderError;
pub use issue::IssueError;
pub use make::MakeError;
pub use publish::PublishError;
pub use residents::Residents;
pub use rotate::{RotateError, Staged, stage};
pub use service::SigningService;
pub use status::CaStatus;

use folder::Folder;
use material::Material;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Default life of workloads' certificates.
pub const SVID_LIFE: Duration = Duration::from_secs(3600);
/// Shortest: below that, renewing them is all that a node would do.
pub const MIN_SVID_LIFE: Duration = Duration::from_secs(3);
/// Longest: certificates are revoked by ending.
pub const MAX_SVID_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Default time for which a new root is trusted before it issues.
pub const ROOT_OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// What a CA has to know.
#[derive(Clone, Debug)]
pub struct CaConfig {
    /// The folder.
    pub dir: PathBuf,
    /// Whom it vouches for.
    pub trust_domain: TrustDomain,
    /// Life of workloads' certificates, at most.
    pub svid_life: Duration,
    /// A new root is trusted for so long before it issues.
    pub root_overlap: Duration,
}

/// Why there is no CA.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// Its files.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Making or signing.
    #[error("CA: {0}")]
    Make(#[from] MakeError),
    /// The key is of a kind that cannot sign.
    #[error("CA: the issuing key cannot be used: {0}")]
    Issuer(String),
}

impl CaError {
    /// This process may not write where the CA is to be.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        let kind = match self {
            Self::Folder(FolderError::Io { source, .. }) => source.kind(),
            _ => return false,
        };
        matches!(kind, PermissionDenied | ReadOnlyFilesystem)
    }
}

/// What happened since the start.
#[derive(Debug, Default)]
struct Counts {
    issued: AtomicU64,
    refused: Mutex<std::collections::BTreeMap<&'static str, u64>>,
}

impl Counts {
    fn refuse(&self, reason: &'static str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(reason).or_default() += 1;
    }
}

/// The authority. Shared by whoever needs a certificate.
#[derive(Debug)]
pub struct Authority {
    config: CaConfig,
    folder: Folder,
    material: RwLock<Arc<Material>>,
    /// Why files that were changed are not in effect.
    trouble: Mutex<Option<String>>,
    bundle: watch::Sender<Arc<TrustBundle>>,
    secrets: watch::Sender<Arc<Secrets>>,
    counts: Counts,
}

impl Authority {
    /// Opens the CA of a folder; makes one where the folder is empty.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn open(config: CaConfig) -> Result<Arc<Self>, CaError> {
        let folder = Folder::open(&config.dir)?;
        let now = OffsetDateTime::now_utc();
        let material = Material::open(&folder, &config.trust_domain, now)?;
        let bundle = Arc::new(material.bundle());
        let secrets = secrets_of(&bundle);
        Ok(Arc::new(Self {
            config,
            folder,
            material: RwLock::new(Arc::new(material)),
            trouble: Mutex::default(),
            bundle: watch::Sender::new(bundle),
            secrets: watch::Sender::new(Arc::new(secrets)),
            counts: Counts::default(),
        }))
    }

    /// Whom it vouches for.
    #[must_use]
    pub const fn trust_domain(&self) -> &TrustDomain {
        &self.config.trust_domain
    }

    /// The roots to be trusted, as they change.
    #[must_use]
    pub fn bundle(&self) -> watch::Receiver<Arc<TrustBundle>> {
        self.bundle.subscribe()
    }

    /// The same as a secret for SDS, under the name [`secret::ROOT_CA`].
    #[must_use]
    pub fn secrets(&self) -> SecretsReceiver {
        self.secrets.subscribe()
    }

    /// What issues now, by its serial number.
    pub(crate) fn issuer(&self) -> String {
        self.material().issuing().serial.clone()
    }

    fn material(&self) -> Arc<Material> {
        let material = self.material.read();
        Arc::clone(&material.unwrap_or_else(PoisonError::into_inner))
    }

    /// Follows the files, and does what is due, until `drain` is cancelled.
    pub async fn run(self: Arc<Self>, drain: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = drain.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let this = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || this.look(OffsetDateTime::now_utc()));
            if looked.await.is_err() {
                tracing::error!("the look at the CA's files panicked");
            }
        }
    }

    /// One look: maintains what is ours to maintain, then takes what the files say.
    fn look(&self, now: OffsetDateTime) {
        let maintained = rotate::maintain(&self.folder, &self.config, now);
        let read = Material::read(&self.folder, &self.config.trust_domain, now);
        let trouble = match (maintained, read) {
            (maintained, Ok(material)) => {
                self.take(material);
                maintained.err().map(|e| e.to_string())
            }
            (_, Err(error)) => Some(error.to_string()),
        };
        let mut known = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_some() && *known != trouble {
            let text = trouble.as_deref().unwrap_or_default();
            tracing::error!("{text}; what was good last stays in effect");
        }
        *known = trouble;
    }

    fn take(&self, material: Material) {
        let mut held = self
            .material
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if held.is_same(&material) {
            return;
        }
        let bundle = Arc::new(material.bundle());
        tracing::info!(
            "the CA issues with {:?}; trust bundle {bundle} of {} root(s)",
            material.issuing().subject,
            bundle.len()
        );
        // Who gets a certificate of a new root finds the root in the bundle: told before it is issued with.
        self.bundle.send_if_modified(|known| {
            let changed = **known != *bundle;
            known.clone_from(&bundle);
            changed
        });
        self.secrets.send_replace(Arc::new(secrets_of(&bundle)));
        *held = Arc::new(material);
    }

    fn count_issued(&self) {
        self.counts.issued.fetch_add(1, Ordering::Relaxed);
    }
}

fn secrets_of(bundle: &TrustBundle) -> Secrets {
    let mut secrets = Secrets::default();
    secrets.insert(secret::ROOT_CA.to_owned(), secret::validation(bundle));
    secrets
}

#[cfg(test)]
mod tests;
