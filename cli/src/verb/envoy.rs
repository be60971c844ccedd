//! The node's Envoy: `weft agent` and `weft up` start it through `weft envoy-process`, which becomes it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setpriority_process};
use weft_dataplane::agent::AgentConfig;
use weft_l7_proxy::{Supervisor, find};

use crate::args::{AgentArgs, EnvoyProcessArgs};

/// Below the agent's cgroup: socket hooks that are attached there see what Envoy opens, wherever the agent itself runs.
const CGROUP: &str = "weft-envoy";

/// What keeps the node's Envoy alive; `None` if it is to have none.
///
/// # Errors
/// When the one that was asked for does not run, or its folder cannot be made.
pub(super) async fn supervisor(
    args: &AgentArgs,
    config: &AgentConfig,
) -> Result<Option<Supervisor>> {
    let Some(envoy) = find(&args.envoy).await? else {
        return Ok(None);
    };
    let folder = config.run_dir.join("envoy");
    let program = std::env::current_exe().context("the path of this program")?;
    let launcher = [
        program,
        "envoy-process".into(),
        "--parent".into(),
        std::process::id().to_string().into(),
        "--own-cgroup".into(),
        config.cgroup.join(CGROUP),
        "--nice".into(),
        args.envoy_nice.to_string().into(),
        "--".into(),
    ];
    Ok(Some(Supervisor::new(
        envoy,
        &config.node,
        &folder,
        launcher.into(),
    )?))
}

/// Removes what Envoy leaves of itself; it has ended.
pub(super) fn remove_cgroup(cgroup: &Path) {
    // Made again when it is needed; one with processes in it stays.
    let _ = fs::remove_dir(cgroup.join(CGROUP));
}

/// Becomes Envoy, in its cgroup, and such that it ends with the agent.
///
/// # Errors
/// When it does not: this returns in no other case.
pub(crate) fn run(args: &EnvoyProcessArgs) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("asking to end with the agent")?;
    // It may have ended before that.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(args.parent) {
        bail!("the agent has ended");
    }
    join_cgroup(&args.cgroup)
        .with_context(|| format!("joining the cgroup {}", args.cgroup.display()))?;
    if let Err(e) = setpriority_process(None, args.nice) {
        // Without CAP_SYS_NICE. Envoy's log is the agent's.
        eprintln!("Envoy has no nice value of {}: {e}", args.nice);
    }
    let (program, words) = args.command.split_first().context("no command is given")?;
    let error = Command::new(program).args(words).exec();
    Err(error).with_context(|| format!("starting {}", PathBuf::from(program).display()))
}

fn join_cgroup(cgroup: &Path) -> std::io::Result<()> {
    match fs::create_dir(cgroup) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    fs::write(cgroup.join("cgroup.procs"), "0")
}
