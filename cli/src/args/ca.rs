//! Options of the mesh's CA, which is in the control plane.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use weft_control::ca::{CaConfig, MAX_SVID_LIFE, MIN_SVID_LIFE};
use weft_identity::TrustDomain;

use super::{MeshArgs, Refusal};

/// Where a control plane of its own has its CA, below which each trust domain has a folder.
const DEFAULT_DIR: &str = "/var/lib/weft/ca";

/// The mesh's CA.
#[derive(Debug, Args)]
pub(crate) struct CaArgs {
    /// Folder of the CA (mode 0700; keys 0600): root.pem, intermediate.pem and intermediate-key.pem are used, an empty folder is given a CA
    /// of its own [default: /var/lib/weft/ca/TRUST_DOMAIN; with `weft up` ca below --run-dir]
    #[arg(long, env = "WEFT_CA_DIR", value_name = "DIR")]
    pub(crate) ca_dir: Option<PathBuf>,

    /// In Kubernetes: Secret of the control plane's own namespace with the CA's files, for all replicas; made if it is not there. The folder
    /// is then a copy of it
    #[arg(long, env = "WEFT_CA_SECRET", value_name = "NAME")]
    pub(crate) ca_secret: Option<String>,

    /// In Kubernetes: ConfigMap of the control plane's own namespace that is to have the CA's root certificates, for agents to mount
    #[arg(long, env = "WEFT_CA_CONFIG_MAP", value_name = "NAME")]
    pub(crate) ca_config_map: Option<String>,

    /// Life of workloads' certificates, as in "10m" or "1h": they are renewed at two thirds of it, and revoked by its end
    #[arg(
        long,
        env = "WEFT_SVID_LIFE",
        value_name = "TIME",
        default_value = "1h",
        value_parser = humantime::parse_duration
    )]
    pub(crate) svid_life: Duration,

    /// How long a new root is trusted before certificates of it are issued (`weft ca rotate`)
    #[arg(
        long,
        env = "WEFT_ROOT_OVERLAP",
        value_name = "TIME",
        default_value = "1d",
        value_parser = humantime::parse_duration
    )]
    pub(crate) root_overlap: Duration,
}

impl CaArgs {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if (MIN_SVID_LIFE..=MAX_SVID_LIFE).contains(&self.svid_life) {
            return Ok(());
        }
        Err(Refusal::new(format!(
            "--svid-life {}: give a time from {} to {}",
            humantime::format_duration(self.svid_life),
            humantime::format_duration(MIN_SVID_LIFE),
            humantime::format_duration(MAX_SVID_LIFE),
        )))
    }

    /// Whether it was asked for by name, so that others may have it too.
    pub(crate) const fn is_shared(&self) -> bool {
        self.ca_dir.is_some() || self.ca_secret.is_some()
    }

    /// The CA of a trust domain; `own`: where it is when nobody says.
    pub(crate) fn config(&self, trust_domain: TrustDomain, own: Option<PathBuf>) -> CaConfig {
        let standard = || default_dir(&trust_domain);
        CaConfig {
            dir: self.ca_dir.clone().or(own).unwrap_or_else(standard),
            trust_domain,
            svid_life: self.svid_life,
            root_overlap: self.root_overlap,
        }
    }
}

/// Where a control plane's CA is when nobody says.
pub(crate) fn default_dir(trust_domain: &TrustDomain) -> PathBuf {
    PathBuf::from(DEFAULT_DIR).join(trust_domain.as_str())
}

/// Options of `weft ca`.
#[derive(Debug, Args)]
pub(crate) struct CaCommand {
    /// What to do with the CA.
    #[command(subcommand)]
    pub(crate) verb: CaVerb,
}

/// The verbs of `weft ca`.
#[derive(Debug, Subcommand)]
pub(crate) enum CaVerb {
    /// Begin the change to a new root: it is trusted at once, and the running control plane has it issue after --root-overlap
    Rotate(RotateArgs),
}

/// Options of `weft ca rotate`.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Folder of the CA [default: /var/lib/weft/ca/TRUST_DOMAIN]
    #[arg(long, env = "WEFT_CA_DIR", value_name = "DIR")]
    pub(crate) ca_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) mesh: MeshArgs,
}

impl RotateArgs {
    /// Where the CA is.
    pub(crate) fn dir(&self) -> PathBuf {
        let own = self.ca_dir.clone();
        own.unwrap_or_else(|| default_dir(&self.mesh.trust_domain))
    }
}
