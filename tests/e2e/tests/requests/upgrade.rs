//! Another binary at Envoy's path, under load.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::http::{envoy, envoy_of, serve, urls, wait_status};
use weft_e2e::mesh::TARGET;
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::{Process, WeftOptions};

use super::{pods, route};

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

/// What has been asked and answered since the last call.
fn counted(load: &mut Process) -> Result<Value> {
    let before = load.stdout().lines().count();
    load.signal(rustix::process::Signal::USR1);
    eventually(LONG, || {
        let said = load.stdout();
        let line = said.lines().nth(before).context("nothing said yet")?;
        Ok(serde_json::from_str(line)?)
    })
}

fn is_alive(pid: i32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = state.rsplit_once(')').map_or("", |(_, rest)| rest);
    !rest.is_empty() && !rest.trim_start().starts_with('Z')
}

#[test]
fn another_binary_takes_over_and_no_request_is_lost() -> Result {
    let folder = tempfile::tempdir()?;
    let (path, next) = (folder.path().join("envoy"), folder.path().join("next"));
    symlink(envoy().canonicalize()?, &path)?;
    let options = WeftOptions::default().arg("--envoy").arg(&path);
    let mut mesh = Mesh::start_with(pods(), &options)?;
    let _server = serve(&mesh.lab, "near", TARGET)?;
    route(&mesh)?;
    let client = mesh.pod("client")?;
    let url = urls(1, "/x")[0].clone();
    wait_status(&client, &url, 200)?;
    let first = envoy_of(&mut mesh, "n1")?;
    let load = client.command("/usr/bin/python3").arg(fixture("steady.py"));
    let mut load = load.arg(&url).spawn()?;
    load.wait_for_line("ready", LONG)?;

    // What does not run changes nothing.
    fs::write(&next, "#!/bin/sh\nexit 1\n")?;
    fs::set_permissions(&next, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    fs::rename(&next, &path)?;
    let log = |mesh: &mut Mesh| -> Result<String> { Ok(mesh.weft("n1")?.process().stderr()) };
    eventually(LONG, || {
        ensure!(log(&mut mesh)?.contains("goes on"), "not noticed yet");
        Ok(())
    })?;
    ensure!(is_alive(first), "the one that works is gone");

    fs::copy(envoy(), &next)?;
    fs::rename(&next, &path)?;
    eventually(LONG, || {
        ensure!(!is_alive(first), "the first Envoy still runs");
        Ok(())
    })?;
    let second = envoy_of(&mut mesh, "n1")?;
    ensure!(second != first, "no other Envoy");
    std::thread::sleep(Duration::from_secs(1));
    let seen = counted(&mut load)?;
    println!("{seen}");
    ensure!(seen["failed"] == Value::Array(Vec::new()), "{seen}");
    // Old connections and new ones, before and after.
    for kind in ["kept", "new"] {
        ensure!(seen[kind].as_u64() > Some(100), "{seen}");
    }
    let after = counted(&mut load)?;
    ensure!(after["failed"] == Value::Array(Vec::new()), "{after}");
    wait_status(&client, &url, 200)?;
    Ok(())
}
