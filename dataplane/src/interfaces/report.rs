//! What `weft status` says about local pods.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::InterfaceIndex;

/// A pod whose interface is not found for longer than this makes the node not ready: runtimes wire up a pod before they name it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The pods' interfaces and what is wrong with them.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Interfaces that were found.
    pub attachments: Vec<PodAttachment>,
    /// Addresses without one.
    pub missing: Vec<MissingPod>,
    /// Why nothing can be found.
    pub failure: Option<String>,
}

/// The programs of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAttachment {
    /// Names of its Workload resources; more than one is an error.
    pub workloads: Vec<String>,
    /// Their addresses.
    pub addresses: Vec<IpAddr>,
    /// Its name.
    pub interface: String,
    /// Its index.
    pub index: InterfaceIndex,
    /// How the programs are attached: `tcx` or `clsact`.
    pub hook: &'static str,
    /// Why they are not, or nothing passes them.
    pub error: Option<String>,
}

/// An address that no interface leads to.
#[derive(Clone, Debug)]
pub struct MissingPod {
    /// Name of its Workload resource.
    pub workload: String,
    /// The address.
    pub address: IpAddr,
    /// What was found instead.
    pub why: String,
    /// Since when it is looked for.
    pub since: Instant,
}

impl Report {
    /// Why the pods of this node are not all under policy; empty when they are.
    #[must_use]
    pub fn reasons(&self, now: Instant) -> Vec<String> {
        let mut reasons: Vec<String> = self.failure.iter().cloned().collect();
        for attachment in &self.attachments {
            if let Some(error) = &attachment.error {
                reasons.push(format!(
                    "{} behind {}: {error}",
                    attachment.workloads.join(", "),
                    attachment.interface
                ));
            }
        }
        for missing in &self.missing {
            let waited = now.saturating_duration_since(missing.since);
            if waited >= PATIENCE {
                reasons.push(format!(
                    "no interface for {} ({}) in {} s: {}",
                    missing.workload,
                    missing.address,
                    waited.as_secs(),
                    missing.why
                ));
            }
        }
        reasons
    }
}
