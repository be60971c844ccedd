//! `weft cleanup`: takes everything out of the kernel again.

use anyhow::{Context, anyhow};
use weft_dataplane::bpf::cleanup;

use super::{Failure, agent_runs};
use crate::args::CleanupArgs;
use crate::output;

/// Removes what is there and says what it was; nothing is no error.
///
/// # Errors
/// When an agent runs there, or the kernel refuses.
pub(crate) fn run(args: &CleanupArgs) -> Result<(), Failure> {
    let run_dir = &args.run_dir.path;
    if !args.force && agent_runs(run_dir) {
        return Err(Failure::Told(anyhow!(
            "an agent runs on {}: stop it first (it would not notice, and services would fail), or give --force",
            run_dir.display()
        )));
    }
    let report =
        cleanup(&args.bpffs).with_context(|| format!("cleaning up {}", args.bpffs.display()))?;
    output::print(&format!(
        "removed {} programs and {} maps\n",
        report.links, report.maps
    ))?;
    Ok(())
}
