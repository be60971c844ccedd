//! mTLS between nodes: the real Envoys of two nodes, one control plane with its CA, and a look at the wire between them.

mod town;
mod tunnels;

use anyhow::ensure;
use town::{MARKER, Town, peer_authentication};
use weft_e2e::http::{curl, urls, wait_status};
use weft_e2e::joined::web_goes_to;
use weft_e2e::mesh::TARGET;
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};

#[test]
fn requests_between_nodes_are_tls_on_the_wire_and_the_backend_sees_the_client() -> Result {
    let mut town = Town::start()?;
    town.apply("route", &web_goes_to("far"))?;
    let client = town.pod("client")?;
    let own = client.addresses();
    for url in urls(3, &format!("/{MARKER}")) {
        wait_status(&client, &url, 200)?;
    }
    town.wire()?;
    for (url, address) in urls(3, &format!("/{MARKER}"))
        .iter()
        .zip([own.v4.to_string(), own.v6.to_string()])
    {
        let answer = curl(&client, url, &["-d", MARKER])?;
        ensure!(answer.server() == "far", "{answer:?}");
        ensure!(answer.seen()?["client"] == address, "{answer:?}");
    }
    let wire = town.wire()?;
    println!("{wire}");
    ensure!(wire["tunnel"].as_u64() > Some(0), "{wire}");
    ensure!(
        wire["plain"] == 0 && wire["marked"] == 0 && wire["not_tls"] == 0,
        "{wire}"
    );
    // Layer 4 without any PeerAuthentication stays in the kernel, as it is.
    let answer = curl(&client, &town.url("far", 4, "/direct")?, &[])?;
    ensure!(answer.server() == "far", "{answer:?}");
    let wire = town.wire()?;
    ensure!(
        wire["tunnel"] == 0 && wire["plain"].as_u64() > Some(0),
        "{wire}"
    );
    town.nothing_refused()
}

#[test]
fn strict_takes_tunnels_alone_and_change_of_mode_closes_plain_connections() -> Result {
    let mut town = Town::start()?;
    let (client, node) = (town.pod("client")?, town.node("n1")?);
    let ways = town.ways("far", 2, &format!("/{MARKER}"))?;
    for url in &ways {
        wait_status(&client, url, 200)?;
    }
    // Open in plain text, and idle.
    let mut idle = town.idle(&client, "far")?;
    town.apply("strict", &peer_authentication("STRICT", ""))?;
    idle.wait_for_line("closed", LONG)?;
    for url in &ways {
        wait_status(&client, url, 200)?;
    }
    town.wire()?;
    for url in &ways {
        let answer = curl(&client, url, &["-d", MARKER])?;
        ensure!(answer.server() == "far", "{answer:?}");
        let own = client.addresses();
        let seen = answer.seen()?["client"].clone();
        ensure!(
            seen == own.v4.to_string() || seen == own.v6.to_string(),
            "{answer:?}"
        );
    }
    let wire = town.wire()?;
    println!("{wire}");
    ensure!(wire["tunnel"].as_u64() > Some(0), "{wire}");
    ensure!(
        wire["plain"] == 0 && wire["marked"] == 0 && wire["not_tls"] == 0,
        "{wire}"
    );
    // On one node nothing is tunnelled, and nothing has to be.
    let near = curl(&client, &town.url("near", 4, "/x")?, &[])?;
    ensure!(near.server() == "near", "{near:?}");
    // The pod's own node may ask it (probes); another may not.
    for (from, allowed) in [("n2", true), ("n1", false)] {
        for family in [4, 6] {
            let output = town
                .node(from)?
                .command("curl")
                .args([
                    "-sS",
                    "-g",
                    "--max-time",
                    "2",
                    &town.url("far", family, "/probe")?,
                ])
                .run(LONG)?;
            ensure!(output.status.success() == allowed, "{from}: {output:?}");
        }
    }
    eventually(LONG, || {
        let told = town.flows("n2", &["--verdict", "denied"])?;
        let plain = told.iter().find(|f| {
            f["reason"] == "plain-text" && f["source"]["address"] == node.addresses().v4.to_string()
        });
        ensure!(plain.is_some(), "{told:?}");
        Ok(())
    })?;
    let asked = town.cli(
        "n2",
        &[
            "check",
            &node.addresses().v4.to_string(),
            "default/far:8080",
        ],
    )?;
    ensure!(asked.contains("mTLS"), "{asked}");
    town.nothing_refused()
}

#[test]
fn ports_and_disable_have_their_own_word() -> Result {
    let mut town = Town::start()?;
    let client = town.pod("client")?;
    let spec = format!(
        "  selector: {{matchLabels: {{app: far}}}}
  portLevelMtls: {{{TARGET}: {{mode: DISABLE}}}}\n"
    );
    town.apply("far", &peer_authentication("STRICT", &spec))?;
    town.apply("route", &web_goes_to("far"))?;
    let direct = town.url("far", 4, "/x")?;
    for url in [&direct, &urls(3, "/x")[0]] {
        wait_status(&client, url, 200)?;
    }
    let other = town.url("far", 4, "/x")?.replace("8080", "8081");
    eventually(LONG, || {
        town.wire()?;
        let answer = curl(&client, &other, &[])?;
        ensure!(answer.server() == "far", "{answer:?}");
        let wire = town.wire()?;
        ensure!(
            wire["plain"] == 0 && wire["tunnel"].as_u64() > Some(0),
            "{wire}"
        );
        Ok(())
    })?;
    for url in [&direct, &urls(3, "/x")[0]] {
        let answer = curl(&client, url, &[])?;
        ensure!(answer.server() == "far", "{answer:?}");
    }
    let wire = town.wire()?;
    ensure!(
        wire["tunnel"] == 0 && wire["plain"].as_u64() > Some(0),
        "{wire}"
    );
    town.nothing_refused()
}
