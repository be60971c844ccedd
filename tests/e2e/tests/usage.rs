//! The outside of `weft`: where it cannot run it says what to do, and it leaves nothing behind.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{GetOptions, Lab, Launch, Node, Output, PodSpec, Weft, WeftOptions, tools, weft};

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
                "--default-policy",
                "deny",
            ],
            "not in this version",
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

fn web() -> ServiceManifest {
    ServiceManifest::new("web")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "web")
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn cleanup_leaves_nothing() -> Result {
    let lab = Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("a", "n1").label("app", "web"));
    let mut mesh = Mesh::start(lab)?;
    mesh.serve(&["a"])?;
    mesh.service(&web(), 1)?;
    let node = mesh.lab.node("n1")?;
    let client = mesh.pod("client")?;
    let reaches = || -> Result<bool> {
        let options = GetOptions::tcp(1).timeout(Duration::from_millis(500));
        Ok(client.get(vips(0)[0], &options)?.iter().all(|a| a.ok()))
    };
    assert!(reaches()?);

    // Not under the feet of a running agent.
    let clean = || -> Result<Output> {
        let launch = node
            .command(tools::weft()?)
            .arg("cleanup")
            .arg("--bpffs")
            .arg(node.bpffs());
        let launch = launch
            .arg("--run-dir")
            .arg(node.run_dir())
            .arg("--cgroup")
            .arg(node.cgroup());
        Ok(launch.run(WITHIN)?)
    };
    assert_fails(&clean()?, 1, &["--force"]);
    assert!(reaches()?);

    // After a crash: everything goes.
    mesh.weft("n1")?.kill9();
    assert!(reaches()?);
    assert!(!files_below(node.bpffs()).is_empty());
    clean()?.success()?;
    assert_eq!(files_below(node.bpffs()), Vec::<PathBuf>::new());
    assert!(!reaches()?, "the service address is still translated");
    // Twice is fine.
    clean()?.success()?;
    weft::cleanup(&node)?;

    // And back again.
    mesh.weft("n1")?.restart()?;
    mesh.weft("n1")?.wait_ready(LONG)?;
    mesh.wait_ready_backends("default/web", 1)?;
    assert!(reaches()?);
    Ok(())
}

#[test]
fn stopping_is_orderly_and_leaves_the_kernel_side() -> Result {
    let lab = Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("a", "n1").label("app", "web"));
    let mut mesh = Mesh::start(lab)?;
    mesh.serve(&["a"])?;
    mesh.service(&web(), 1)?;
    // stop() wants exit status 0.
    mesh.weft("n1")?.stop()?;
    let attempts = mesh.pod("client")?.get(vips(0)[0], &GetOptions::tcp(5))?;
    assert!(attempts.iter().all(|a| a.ok()), "{attempts:?}");
    let output = mesh.weft("n1")?.cli(&["status"])?;
    assert_fails(&output, 1, &["agent"]);
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
