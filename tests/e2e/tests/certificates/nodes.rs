//! Two nodes and a control plane on one of them, over TLS with a token; and agents that get something wrong.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use weft_e2e::certificates::wait_certificates;
use weft_e2e::channel::{TOKEN, strange_roots, write_secret};
use weft_e2e::mesh::status;
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};
use weft_lab::{Lab, Node, Weft, WeftOptions};

use super::pods;

const PORT: u16 = 15_010;

struct Files {
    token: PathBuf,
    bundle: PathBuf,
}

fn with(token: &Path, bundle: &Path) -> WeftOptions {
    let options = WeftOptions::default().arg("--join-token-file").arg(token);
    options.arg("--ca-bundle").arg(bundle)
}

fn start(lab: &Lab) -> Result<(Weft, Files, String)> {
    let files = Files {
        token: lab.dir().join("token"),
        bundle: lab.dir().join("bundle.pem"),
    };
    write_secret(&files.token, TOKEN)?;
    let node = lab.node("n1")?;
    let options = with(&files.token, &files.bundle);
    let control = Weft::protected_control(&node, lab.manifests(), PORT, options)?;
    eventually(LONG, || {
        ensure!(files.bundle.exists(), "no bundle");
        Ok(())
    })?;
    let address = format!("{}:{PORT}", node.addresses().v4);
    Ok((control, files, address))
}

#[test]
fn two_nodes_join_and_get_what_is_theirs() -> Result {
    let lab = pods().build()?;
    lab.publish()?;
    let (mut control, files, address) = start(&lab)?;
    let agent = |node: &Node, address: &str| {
        Weft::protected_agent(node, address, with(&files.token, &files.bundle))
    };
    let (n1, n2) = (lab.node("n1")?, lab.node("n2")?);
    // Under another address than the one it listens on, too.
    let six = format!("[{}]:{PORT}", n1.addresses().v6);
    ensure!(six.contains(':'), "{six}");
    let agents = [
        agent(&n1, &format!("127.0.0.1:{PORT}"))?,
        agent(&n2, &address)?,
    ];
    for agent in &agents {
        agent.wait_ready(LONG)?;
    }
    wait_certificates(&agents[0], &["cart", "web"])?;
    wait_certificates(&agents[1], &["pay"])?;
    let said = status(&agents[1])?;
    let identities = &said["identities"];
    ensure!(
        identities["valid"] == 1 && identities["roots"] == 1,
        "{identities}"
    );
    ensure!(identities["trustDomain"] == "cluster.local", "{identities}");
    let table = agents[1].cli(&["certificates"])?.success()?;
    ensure!(table.stdout.contains("sa/pay"), "{}", table.stdout);
    let table = agents[1].cli(&["status"])?.success()?;
    ensure!(table.stdout.contains("1 of 1 valid"), "{}", table.stdout);

    // Losing the control plane takes nothing away, and it is found again.
    control.stop()?;
    control.restart()?;
    for agent in &agents {
        agent.wait_ready(LONG)?;
    }
    wait_certificates(&agents[1], &["pay"])?;
    Ok(())
}

/// The agent on `n2`, with these options, gets nothing, and says why.
fn refused(lab: &Lab, address: &str, options: WeftOptions, why: &str) -> Result {
    let node = lab.node("n2")?;
    let mut agent = Weft::protected_agent(&node, address, options)?;
    let outcome = eventually(LONG, || {
        let said = status(&agent)?;
        ensure!(said["synced"] == false && said["ready"] == false, "{said}");
        let reasons = said["reasons"].to_string();
        ensure!(reasons.contains(why), "{why} expected: {reasons}");
        Ok(())
    });
    agent.stop()?;
    outcome
}

#[test]
fn who_gets_something_wrong_gets_nothing_and_a_sentence() -> Result {
    let lab = pods().build()?;
    lab.publish()?;
    let (_control, files, address) = start(&lab)?;
    let wrong = lab.dir().join("wrong-token");
    write_secret(&wrong, "00000000000000000000000000000000")?;
    let strange = lab.dir().join("strange.pem");
    std::fs::write(&strange, strange_roots()?.pem())?;
    let missing = lab.dir().join("missing.pem");
    for (options, why) in [
        (with(&wrong, &files.bundle), "not valid here"),
        (with(&files.token, &strange), "leads to no root"),
        (with(&files.token, &missing), "missing.pem"),
        (WeftOptions::default().arg("--insecure"), ""),
    ] {
        refused(&lab, &address, options, why)?;
    }
    let node = lab.node("n1")?;
    let plain = Weft::control(&node, lab.manifests(), PORT + 1, WeftOptions::default())?;
    let address = format!("{}:{}", node.addresses().v4, PORT + 1);
    let options = with(&files.token, &files.bundle);
    refused(&lab, &address, options, "does not speak TLS")?;
    drop(plain);
    Ok(())
}
