//! `weft agent`: the node agent alone.

use anyhow::{Context, Result};
use tokio_util::sync::CancellationToken;
use weft_dataplane::accel::Acceleration;
use weft_dataplane::agent::{self, AgentConfig, ControlTarget};
use weft_dataplane::doctor;
use weft_dataplane::proxy::ProxyConfig;
use weft_identity::TrustDomain;

use super::envoy;
use crate::args::{AgentArgs, RemoteAgentArgs, Switch};
use crate::signals;

/// Serves until a signal comes.
///
/// # Errors
/// When it cannot start, or a part of it fails.
pub(crate) async fn run(args: &RemoteAgentArgs) -> Result<()> {
    args.security.check_files()?;
    let drain = signals::drain_token()?;
    start(&args.agent, &args.mesh.trust_domain, args.target()?, drain).await
}

/// Runs an agent until `drain` is cancelled.
///
/// # Errors
/// As [`run`].
pub(super) async fn start(
    args: &AgentArgs,
    trust_domain: &TrustDomain,
    control: ControlTarget,
    drain: CancellationToken,
) -> Result<()> {
    let mut config = config(args, trust_domain, control)?;
    let supervisor = envoy::supervisor(args, &config).await?;
    if let Some(supervisor) = &supervisor {
        config.proxy = Some(ProxyConfig {
            ready: supervisor.ready(),
            control: supervisor.control(),
        });
    }
    tracing::info!(
        "agent of node {} loads its programs; cgroup {}, pins {}, run directory {}",
        config.node,
        config.cgroup.display(),
        config.bpffs.display(),
        config.run_dir.display()
    );
    let Some(supervisor) = supervisor else {
        agent::run(config, drain).await?;
        return Ok(());
    };
    let cgroup = config.cgroup.clone();
    // Envoy ends with the agent, also if that cannot start.
    let leave = drain.child_token();
    let running = tokio::spawn(supervisor.run(leave.clone()));
    let ran = agent::run(config, drain).await;
    leave.cancel();
    running.await.context("the task that runs Envoy")?;
    envoy::remove_cgroup(&cgroup);
    ran?;
    Ok(())
}

fn config(
    args: &AgentArgs,
    trust_domain: &TrustDomain,
    control: ControlTarget,
) -> Result<AgentConfig> {
    let cgroup = args.cgroup.clone().or_else(doctor::cgroup2_mount).context(
        "no cgroup v2 hierarchy is mounted: run `mount -t cgroup2 none /sys/fs/cgroup`, or give a folder of one with --cgroup",
    )?;
    let sizes = args
        .map_size
        .iter()
        .map(|size| (size.map.clone(), size.entries.get()));
    Ok(AgentConfig {
        node: args.node.clone(),
        control,
        cgroup,
        bpffs: args.bpffs.clone(),
        run_dir: args.run_dir.path.clone(),
        metrics: args.metrics(),
        node_health: args.node_health,
        map_sizes: sizes.collect(),
        drain_timeout: args.drain_timeout,
        flow_history: args.flow_history,
        default_policy: args.default_policy.into(),
        workload_pairs: args.metrics_pairs,
        request_metrics: args.request_metrics == Switch::On,
        export: args.otlp.config(),
        flow_events: args.flow_events == Switch::On,
        uplinks: args.uplink.clone(),
        host_routing: args.host_routing.into(),
        node_ports: args.node_ports == Switch::On,
        acceleration: Acceleration {
            mode: args.acceleration.into(),
            bound: args.acceleration_bound,
            loopback: args.acceleration_loopback == Switch::On,
        },
        trust_domain: trust_domain.clone(),
        proxy: None,
    })
}
