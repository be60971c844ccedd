//! `weft cleanup`: takes everything out of the kernel again.

use anyhow::Context;
use weft_dataplane::admin::{LockError, RunDir};
use weft_dataplane::bpf::cleanup;
use weft_dataplane::doctor;
use weft_dataplane::proxy::remove_routing;

use super::{Failure, envoy};
use crate::args::CleanupArgs;
use crate::{output, signals};

/// Removes what is there and says what it was; nothing is no error.
///
/// # Errors
/// When an agent runs there, or the kernel refuses.
pub(crate) async fn run(args: &CleanupArgs) -> Result<(), Failure> {
    let end = signals::drain_token()?;
    remove(args)?;
    if args.stay {
        end.cancelled().await;
    }
    Ok(())
}

fn remove(args: &CleanupArgs) -> Result<(), Failure> {
    // Held to the end: no agent starts meanwhile.
    let _lock = if args.force { None } else { lock(args)? };
    tracing::debug!(cgroup = ?args.cgroup, "programs leave their cgroup with their pins");
    let report =
        cleanup(&args.bpffs).with_context(|| format!("cleaning up {}", args.bpffs.display()))?;
    let rules = remove_routing().context("removing the rule that leads to Envoy")?;
    tracing::debug!("removed {rules} routing rules");
    if let Some(cgroup) = args.cgroup.clone().or_else(doctor::cgroup2_mount) {
        envoy::remove_cgroup(&cgroup);
    }
    output::print(&format!(
        "removed {} programs and {} maps\n",
        report.links, report.maps
    ))?;
    Ok(())
}

fn lock(args: &CleanupArgs) -> anyhow::Result<Option<RunDir>> {
    let run_dir = &args.run_dir.path;
    if !run_dir.exists() {
        return Ok(None);
    }
    match RunDir::lock(run_dir) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ LockError::Taken { .. }) => Err(error).context(
            "the kernel side of a running agent cannot be removed: stop it first, or give --force",
        ),
        Err(error) => Err(error.into()),
    }
}
