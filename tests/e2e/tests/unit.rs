//! The systemd unit in `deploy/systemd` leaves the agent the capabilities that it needs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, ensure};
use weft_e2e::Result;
use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::wait::{LONG, eventually};
use weft_lab::client::HOLDING;
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::probe::Held;
use weft_lab::{GetOptions, Lab, PodSpec, ServeOptions, tools, weft};

/// The unit's capabilities, as setpriv wants them: everything else is out of reach for good.
fn bounding_set() -> Result<String> {
    let path = tools::workspace().join("deploy/systemd/weft.service");
    let unit = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let list = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="))
        .context("no CapabilityBoundingSet")?;
    let names = list
        .split_whitespace()
        .filter_map(|name| name.strip_prefix("CAP_"));
    let wanted: Vec<String> = names
        .map(|name| format!("+{}", name.to_lowercase()))
        .collect();
    Ok(format!("-all,{}", wanted.join(",")))
}

#[test]
fn the_units_capabilities_are_enough() -> Result {
    let lab = Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("a", "n1").label("app", "web"))
        .build()?;
    lab.publish()?;
    let service = ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "web");
    lab.manifests().write("service", &service.yaml())?;
    let node = lab.node("n1")?;
    let launch = node.agent_place().command("setpriv").arg("--bounding-set");
    let launch = launch.arg(bounding_set()?).arg(tools::weft()?);
    let launch = launch.args(["up", "--node", "n1", "--envoy", "none", "--manifests"]);
    let launch = launch
        .arg(lab.manifests().dir())
        .arg("--cgroup")
        .arg(node.cgroup());
    let launch = launch.arg("--bpffs").arg(node.bpffs());
    let process = launch.arg("--run-dir").arg(node.run_dir()).spawn()?;
    let status = weft::cli(&node, &["status", "--wait", "20"])?;
    assert!(
        status.status.success(),
        "{}{}{}",
        status.stdout,
        status.stderr,
        process.stderr()
    );

    // Translating, and entering the namespace of another user's process to close what is open there.
    let _server = lab.pod("a")?.serve(&ServeOptions::tcp(TARGET))?;
    let open = tempfile::tempdir_in("/var/tmp")?;
    fs::set_permissions(open.path(), Permissions::from_mode(0o755))?;
    let probe = open.path().join("probe");
    fs::copy(tools::probe()?, &probe)?;
    let client = lab.pod("client")?;
    eventually(LONG, || {
        let attempts = client.get(vips(0)[0], &GetOptions::tcp(1))?;
        ensure!(attempts.iter().all(|a| a.ok()), "{attempts:?}");
        Ok(())
    })?;
    let launch =
        client
            .command("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    let launch = launch.arg(&probe).arg("hold").arg(vips(0)[0].to_string());
    let mut hold = launch.args(["--for", "8000"]).spawn()?;
    hold.wait_for_line(HOLDING, LONG)?;
    lab.manifests().remove("pod-a")?;
    let held: Held = hold.finish(LONG)?.success()?.json()?;
    assert!(held.broken, "{held:?}; {}", process.stderr());
    Ok(())
}
