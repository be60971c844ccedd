//! Who opens a tunnel has to be who it says, and gets nowhere but to pods of the node.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use weft_e2e::http::envoy_below;
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};
use weft_lab::{Pod, WeftOptions};

use crate::town::{MARKER, Town, fixture, peer_authentication};

/// A certificate with this SPIFFE ID, and its key, issued by the CA in `ca`.
struct Certificate {
    chain: PathBuf,
    key: PathBuf,
}

fn openssl(town: &Town, args: &[&str]) -> Result {
    town.node("n1")?
        .command("openssl")
        .args(args)
        .run(LONG)?
        .success()?;
    Ok(())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

impl Certificate {
    fn issue(town: &Town, ca: &Path, identity: &str, name: &str) -> Result<Self> {
        let folder = town.node("n1")?.run_dir().to_owned();
        let at = |end: &str| folder.join(format!("{name}{end}"));
        let (key, request, one, chain, extension) =
            (at(".key"), at(".csr"), at(".crt"), at(".pem"), at(".ext"));
        let san = format!(
            "subjectAltName=critical,URI:{identity}\nextendedKeyUsage=clientAuth,serverAuth\nkeyUsage=critical,digitalSignature\nbasicConstraints=CA:FALSE\n"
        );
        std::fs::write(&extension, san)?;
        let new = [
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/",
        ];
        openssl(
            town,
            &[&new[..], &["-keyout", text(&key), "-out", text(&request)]].concat(),
        )?;
        let (by, by_key) = (ca.join("intermediate.pem"), ca.join("intermediate-key.pem"));
        let sign = ["x509", "-req", "-days", "1", "-set_serial", "7"];
        let with = [
            "-in",
            text(&request),
            "-CA",
            text(&by),
            "-CAkey",
            text(&by_key),
        ];
        let out = ["-extfile", text(&extension), "-out", text(&one)];
        openssl(town, &[&sign[..], &with, &out].concat())?;
        let whole = format!(
            "{}{}",
            std::fs::read_to_string(&one)?,
            std::fs::read_to_string(by)?
        );
        std::fs::write(&chain, whole)?;
        Ok(Self { chain, key })
    }
}

/// What becomes of a tunnel that a pod opens to far by hand.
fn open(town: &Town, pod: &Pod, certificate: Option<&Certificate>, target: &str) -> Result<String> {
    let far = town.pod("far")?.addresses().v4.to_string();
    let dash = Path::new("-");
    let (chain, key) = certificate.map_or((dash, dash), |c| (&c.chain, &c.key));
    let output = pod
        .command("/usr/bin/python3")
        .arg(fixture("tunnel_client.py"))
        .args([&far, text(chain), text(key), target, "-"])
        .run(LONG)?;
    Ok(format!("{}{}", output.stdout, output.stderr)
        .trim()
        .to_owned())
}

#[test]
fn only_the_owner_of_an_address_opens_tunnels_and_only_to_pods_of_the_node() -> Result {
    let town = Town::start()?;
    let (client, stranger) = (town.pod("client")?, town.pod("stranger")?);
    let ca = town.ca()?;
    let identity = "spiffe://cluster.local/ns/default/sa/client";
    let own = Certificate::issue(&town, &ca, identity, "own")?;
    let far = format!("{}:8080", town.pod("far")?.addresses().v4);
    eventually(LONG, || {
        let said = open(&town, &client, Some(&own), &far)?;
        ensure!(said.starts_with("answered"), "the owner is let in: {said}");
        Ok(())
    })?;
    let nobody = |said: &str| said.starts_with("closed") || said.starts_with("tls refused");
    let said = open(&town, &client, None, &far)?;
    ensure!(nobody(&said), "without a certificate: {said}");
    let said = open(&town, &stranger, Some(&own), &far)?;
    ensure!(
        nobody(&said),
        "with the certificate of another identity: {said}"
    );
    let foreign = Certificate::issue(&town, &foreign_ca(&town)?, identity, "foreign")?;
    let said = open(&town, &client, Some(&foreign), &far)?;
    ensure!(nobody(&said), "with another mesh's certificate: {said}");
    let elsewhere = "spiffe://elsewhere/ns/default/sa/client";
    let elsewhere = Certificate::issue(&town, &ca, elsewhere, "elsewhere")?;
    let said = open(&town, &client, Some(&elsewhere), &far)?;
    ensure!(nobody(&said), "of another trust domain: {said}");
    // No open proxy: not to the node, not to pods of other nodes, not to Envoy itself.
    let node = town.node("n2")?.addresses().v4;
    let near = town.pod("near")?.addresses().v4;
    for target in [
        format!("{node}:15010"),
        format!("{near}:8080"),
        "127.0.0.1:15001".to_owned(),
        "192.0.2.1:80".to_owned(),
    ] {
        let said = open(&town, &client, Some(&own), &target)?;
        ensure!(
            !said.starts_with("answered") && !said.contains("200"),
            "{target}: {said}"
        );
    }
    Ok(())
}

fn foreign_ca(town: &Town) -> Result<PathBuf> {
    let folder = town.node("n1")?.run_dir().join("foreign");
    std::fs::create_dir_all(&folder)?;
    let (certificate, key) = (
        folder.join("intermediate.pem"),
        folder.join("intermediate-key.pem"),
    );
    let new = [
        "req",
        "-x509",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/O=weft",
        "-days",
        "1",
    ];
    openssl(
        town,
        &[
            &new[..],
            &["-keyout", text(&key), "-out", text(&certificate)],
        ]
        .concat(),
    )?;
    Ok(folder)
}

#[test]
fn ingress_policies_judge_what_comes_out_of_tunnels() -> Result {
    let town = Town::start()?;
    let (client, stranger) = (town.pod("client")?, town.pod("stranger")?);
    town.apply("strict", &peer_authentication("STRICT", ""))?;
    let url = town.url("far", 4, "/x")?;
    for pod in [&client, &stranger] {
        weft_e2e::http::wait_status(pod, &url, 200)?;
    }
    town.apply(
        "policy",
        "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: far, namespace: default}
spec:
  podSelector: {matchLabels: {app: far}}
  ingress: [{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: 8080}]}]
",
    )?;
    eventually(LONG, || {
        let answer = weft_e2e::http::curl(&stranger, &url, &["--max-time", "3"])?;
        ensure!(answer.status != 200, "{answer:?}");
        Ok(())
    })?;
    weft_e2e::http::wait_status(&client, &url, 200)?;
    Ok(())
}

/// Asks on one connection and on new ones, for so many seconds; says how often each went wrong.
const LOAD: &str = "import http.client,sys,time
host,port,seconds=sys.argv[1],int(sys.argv[2]),float(sys.argv[3])
kept=http.client.HTTPConnection(host,port,timeout=10)
asked=failed=0
end=time.time()+seconds
while time.time()<end:
    for connection in (kept,http.client.HTTPConnection(host,port,timeout=10)):
        asked+=1
        try:
            connection.request('GET','/load')
            failed+=connection.getresponse().read()==b''
        except OSError as error:
            failed+=1
            print(error,flush=True)
    time.sleep(0.02)
print('asked',asked,'failed',failed)";

#[test]
fn certificates_are_replaced_and_no_connection_notices() -> Result {
    // Replaced every two seconds.
    let options = WeftOptions::default().arg("--svid-life").arg("3s");
    let town = Town::start_with(options)?;
    let client = town.pod("client")?;
    town.apply("strict", &peer_authentication("STRICT", ""))?;
    let url = town.url("far", 4, "/x")?;
    weft_e2e::http::wait_status(&client, &url, 200)?;
    let far = town.pod("far")?.addresses().v4.to_string();
    let load = client
        .command("/usr/bin/python3")
        .args(["-c", LOAD, &far, "8080", "8"]);
    let output = load.run(LONG)?.success()?;
    println!("{}", output.stdout);
    ensure!(output.stdout.trim_end().ends_with("failed 0"), "{output:?}");
    town.nothing_refused()
}

/// Process number of a node's Envoy, found by its agent.
fn envoy_of(town: &mut Town, node: &str) -> Result<i32> {
    let agents = &mut town.joined.agents;
    let agent = agents.iter_mut().find(|a| a.node().name() == node);
    let agent = agent.context("an agent")?.process().pid();
    envoy_below(agent)
}

#[test]
fn without_envoy_nothing_goes_in_plain_text_and_all_is_well_once_it_is_back() -> Result {
    let mut town = Town::start()?;
    let client = town.pod("client")?;
    town.apply("strict", &peer_authentication("STRICT", ""))?;
    let url = town.url("far", 4, &format!("/{MARKER}"))?;
    weft_e2e::http::wait_status(&client, &url, 200)?;
    for node in ["n1", "n2"] {
        town.wire()?;
        let envoy = envoy_of(&mut town, node)?;
        let pid = rustix::process::Pid::from_raw(envoy).context("a process number")?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
        // Both while it is down and later.
        for _ in 0..3 {
            weft_e2e::http::curl(&client, &url, &["--max-time", "2", "-d", MARKER])?;
        }
        weft_e2e::http::wait_status(&client, &url, 200)?;
        ensure!(envoy_of(&mut town, node)? != envoy, "it is another");
        let wire = town.wire()?;
        ensure!(wire["plain"] == 0 && wire["marked"] == 0, "{node}: {wire}");
    }
    Ok(())
}

#[test]
fn layer_7_policies_judge_what_comes_out_of_tunnels() -> Result {
    let mut town = Town::start()?;
    let (client, stranger) = (town.pod("client")?, town.pod("stranger")?);
    town.apply("strict", &peer_authentication("STRICT", ""))?;
    town.apply(
        "authorization",
        "apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: far, namespace: default}
spec:
  selector: {matchLabels: {app: far}}
  rules:
  - from: [{source: {principals: [cluster.local/ns/default/sa/client]}}]
    to: [{operation: {methods: [GET]}}]
",
    )?;
    for family in [4, 6] {
        let url = town.url("far", family, &format!("/{MARKER}"))?;
        for (method, status) in [("GET", 200), ("POST", 403)] {
            eventually(LONG, || {
                let args = ["-X", method, "--max-time", "3"];
                let answer = weft_e2e::http::curl(&client, &url, &args)?;
                ensure!(
                    answer.status == status,
                    "{method} {status} expected: {answer:?}"
                );
                Ok(())
            })?;
        }
        // No rule is for this one, whatever it asks: the kernel refuses the connection.
        let answer = weft_e2e::http::curl(&stranger, &url, &["--max-time", "3"])?;
        ensure!(answer.status == 0, "{answer:?}");
        // Past the tunnel, in plain text, nobody is asked: it is refused.
        let output = town
            .node("n1")?
            .command("curl")
            .args(["-sS", "-g", "--max-time", "2", &url])
            .run(LONG)?;
        ensure!(!output.status.success(), "{output:?}");
    }
    town.wire()?;
    for family in [4, 6] {
        let url = town.url("far", family, &format!("/{MARKER}"))?;
        let answer = weft_e2e::http::curl(&client, &url, &[])?;
        ensure!(answer.server() == "far", "{answer:?}");
    }
    let wire = town.wire()?;
    ensure!(wire["plain"] == 0 && wire["marked"] == 0, "{wire}");
    ensure!(wire["tunnel"].as_u64() > Some(0), "{wire}");
    town.nothing_refused()
}
