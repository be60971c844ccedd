//! The outside of `weft`: where it cannot run it says what to do, and it leaves nothing behind.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result};
use weft_lab::{Lab, Launch, Node, Output, Weft, WeftOptions, tools, weft};

const WITHIN: Duration = Duration::from_secs(30);

/// `weft up` on a node, with these options instead of the right ones.
fn up(lab: &Lab, node: &Node, wrong: &[(&str, &Path)]) -> Result<Output> {
    let right = [
        ("--manifests", lab.manifests().dir()),
        ("--cgroup", node.cgroup()),
        ("--bpffs", node.bpffs()),
        ("--run-dir", node.run_dir()),
    ];
    let mut launch =
        node.command(tools::weft()?)
            .args(["up", "--node", node.name(), "--envoy", "none"]);
    for (option, path) in right {
        let wrong = wrong
            .iter()
            .find(|(name, _)| *name == option)
            .map(|(_, path)| *path);
        launch = launch.arg(option).arg(wrong.unwrap_or(path));
    }
    Ok(launch.run(WITHIN)?)
}

fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    let said = &output.stderr;
    assert_eq!(
        output.status.code(),
        Some(code),
        "{}: {said}",
        output.command
    );
    for word in words {
        assert!(said.contains(word), "{word:?} in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn a_place_that_is_wrong_is_named_with_what_to_do() -> Result {
    let lab = Lab::builder().node("n1").build()?;
    let node = lab.node("n1")?;
    let plain = tempfile::tempdir()?;
    let nowhere = plain.path().join("nothing");
    for (option, path, words) in [
        ("--cgroup", plain.path(), ["cgroup v2", "--cgroup"]),
        ("--cgroup", &nowhere, ["nothing", "--cgroup"]),
        ("--bpffs", plain.path(), ["mount -t bpf", "--bpffs"]),
        ("--manifests", &nowhere, ["nothing", "folder"]),
    ] {
        let output = up(&lab, &node, &[(option, path)])?;
        assert_fails(&output, 1, &words);
        assert!(
            fs::read_dir(node.run_dir())?.all(|e| e.is_ok_and(|e| e.file_name() != "agent.sock"))
        );
    }
    Ok(())
}

#[test]
fn without_root_it_says_so() -> Result {
    let lab = Lab::builder().node("n1").build()?;
    let node = lab.node("n1")?;
    // The binary itself may lie where nobody else can read.
    let open = tempfile::tempdir_in("/var/tmp")?;
    let copy = open.path().join("weft");
    fs::copy(tools::weft()?, &copy)?;
    fs::set_permissions(open.path(), Permissions::from_mode(0o777))?;
    let manifests = open.path().join("manifests");
    fs::create_dir(&manifests)?;
    let run_dir = open.path().join("run");
    let launch: Launch = node
        .command("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args(["up", "--node", "n1", "--envoy", "none", "--cgroup"])
        .arg(node.cgroup())
        .arg("--bpffs")
        .arg(node.bpffs())
        .arg("--run-dir")
        .arg(&run_dir)
        .arg("--manifests")
        .arg(&manifests);
    assert_fails(&launch.run(WITHIN)?, 1, &["root"]);
    Ok(())
}

#[test]
fn wrong_usage_has_a_status_of_its_own() -> Result {
    let lab = Lab::builder().node("n1").build()?;
    let node = lab.node("n1")?;
    let dir = lab.manifests().dir().display().to_string();
    for (args, word) in [
        (vec!["up", "--node", "n1"], "--manifests"),
        (
            vec![
                "up",
                "--node",
                "n1",
                "--manifests",
                &dir,
                "--kubeconfig",
                "k",
            ],
            "cannot be used with '--kubeconfig",
        ),
        (
            vec!["agent", "--node", "n1", "--control", "10.0.0.1:15010"],
            "--insecure",
        ),
        (vec!["control", "--manifests", &dir], "--insecure"),
        (vec!["nonsense"], "nonsense"),
    ] {
        let output = node.command(tools::weft()?).args(args).run(WITHIN)?;
        assert_fails(&output, 2, &[word]);
    }
    let help = node
        .command(tools::weft()?)
        .arg("--help")
        .run(WITHIN)?
        .success()?;
    assert!(help.stdout.contains("Exit status"), "{}", help.stdout);
    Ok(())
}

#[test]
fn variables_stand_between_command_line_and_file() -> Result {
    let lab = Lab::builder().node("n1").build()?;
    let node = lab.node("n1")?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("weft.yaml");
    fs::write(&file, "run-dir: /from-file\n")?;
    let status = || -> Result<Launch> {
        Ok(node
            .command(tools::weft()?)
            .arg("status")
            .arg("--config")
            .arg(&file))
    };
    assert_fails(&status()?.run(WITHIN)?, 1, &["/from-file"]);
    assert_fails(
        &status()?.env("WEFT_RUN_DIR", "/from-env").run(WITHIN)?,
        1,
        &["/from-env"],
    );
    let both = status()?
        .env("WEFT_RUN_DIR", "/from-env")
        .args(["--run-dir", "/from-line"]);
    assert_fails(&both.run(WITHIN)?, 1, &["/from-line"]);
    Ok(())
}

#[test]
fn a_second_agent_on_a_run_dir_is_refused() -> Result {
    let mut mesh = Mesh::start(Lab::builder().node("n1"))?;
    let node = mesh.lab.node("n1")?;
    let second = up(&mesh.lab, &node, &[])?;
    assert_fails(&second, 1, &["--run-dir"]);
    // The first does not notice, and one that comes after a crash is welcome.
    mesh.weft("n1")?.wait_ready(LONG)?;
    mesh.weft("n1")?.restart()?;
    mesh.weft("n1")?.wait_ready(LONG).map_err(Into::into)
}

#[test]
fn an_address_in_use_is_named() -> Result {
    let mesh = Mesh::start(Lab::builder().node("n1"))?;
    let node = mesh.lab.node("n1")?;
    let control = |listen: &str, metrics: &str| -> Result<Output> {
        let launch = node
            .command(tools::weft()?)
            .args(["control", "--insecure", "--manifests"]);
        let launch = launch.arg(mesh.lab.manifests().dir());
        Ok(launch
            .args(["--listen", listen, "--metrics", metrics])
            .run(WITHIN)?)
    };
    assert_fails(
        &control("127.0.0.1:15020", "none")?,
        1,
        &["127.0.0.1:15020", "--listen"],
    );
    assert_fails(
        &control("127.0.0.1:15010", "127.0.0.1:15020")?,
        1,
        &["--metrics"],
    );
    Ok(())
}

#[test]
fn status_waits_and_tells_when_there_is_nobody() -> Result {
    let lab = Lab::builder().node("n1").build()?;
    let node = lab.node("n1")?;
    let output = weft::cli(&node, &["status", "--wait", "1"])?;
    assert_fails(&output, 1, &[&node.run_dir().display().to_string()]);
    // An agent whose control plane is not there attaches, and says what it waits for.
    let agent = Weft::agent(&node, "127.0.0.1:15010", WeftOptions::default())?;
    let output = agent.cli(&["status", "--wait", "3", "-o", "json"])?;
    assert_eq!(output.status.code(), Some(1), "{}", output.stderr);
    let status: serde_json::Value = output.json()?;
    assert_eq!(status["synced"], false, "{status:#}");
    assert_eq!(status["attached"], true, "{status:#}");
    assert_eq!(status["ready"], false, "{status:#}");
    assert!(
        !status["reasons"].as_array().is_none_or(Vec::is_empty),
        "{status:#}"
    );
    Ok(())
}

#[test]
fn doctor_says_that_it_runs_here() -> Result {
    let lab = Lab::builder().node("n1").build()?;
    let output = weft::cli(&lab.node("n1")?, &["doctor", "-o", "json"])?.success()?;
    let report: serde_json::Value = output.json()?;
    assert_eq!(report["ok"], true, "{report:#}");
    let features = report["features"].as_array().cloned().unwrap_or_default();
    for name in ["Linux", "BTF", "cgroup v2", "programs load", "Envoy"] {
        assert!(
            features.iter().any(|f| f["name"] == name),
            "{name}: {report:#}"
        );
    }
    Ok(())
}

#[test]
fn logs_can_be_json() -> Result {
    let options = WeftOptions::default().arg("--log-format").arg("json");
    let mut mesh = Mesh::start_with(Lab::builder().node("n1"), &options)?;
    let weft = mesh.weft("n1")?;
    weft.stop()?;
    let log = weft.process().stderr();
    assert!(!log.is_empty());
    for line in log.lines() {
        let event: serde_json::Value = serde_json::from_str(line)?;
        assert!(
            event["level"].is_string() && event["fields"].is_object(),
            "{line}"
        );
    }
    Ok(())
}

#[test]
fn one_node_can_serve_the_others() -> Result {
    let lab = Lab::builder().node("n1").node("n2").build()?;
    lab.publish()?;
    let (n1, n2) = (lab.node("n1")?, lab.node("n2")?);
    let options = WeftOptions::default()
        .arg("--insecure")
        .arg("--listen")
        .arg("0.0.0.0:15010");
    let up = Weft::up(&n1, lab.manifests(), options)?;
    let address = format!("{}:15010", n1.addresses().v4);
    let agent = Weft::agent(&n2, &address, WeftOptions::default())?;
    for weft in [&up, &agent] {
        weft.wait_ready(LONG)?;
        let workloads = weft.cli_json(&["workloads", "n2"])?;
        assert_eq!(workloads[0]["kind"], "node", "{workloads:#}");
    }
    Ok(())
}
