//! Bad manifests, full maps, too much of everything: said in `weft status` with file, object and field, and all else applies.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::mesh::{PORT, TARGET, vip_addresses, vips};
use weft_e2e::stats::by_server;
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{
    Endpoint, EndpointSliceManifest, ServiceManifest, ServicePort, documents,
};
use weft_lab::{GetOptions, Lab, LabBuilder, PodSpec, WeftOptions};

fn one_node() -> LabBuilder {
    Lab::builder()
        .node("n1")
        .pod(PodSpec::new("client", "n1"))
        .pod(PodSpec::new("a", "n1").label("app", "web"))
}

fn web(index: u16, name: &str) -> ServiceManifest {
    ServiceManifest::new(name)
        .cluster_ips(vip_addresses(index))
        .port(ServicePort::tcp(PORT).to(TARGET))
        .selector("app", "web")
}

fn reaches(mesh: &Mesh, index: u16) -> Result<bool> {
    let attempts = mesh
        .pod("client")?
        .get(vips(index)[0], &GetOptions::tcp(3))?;
    Ok(attempts.iter().all(|a| a.ok()))
}

/// Waits for a problem of `file` that names `object` and `field`.
fn wait_problem(mesh: &Mesh, file: &str, object: &str, field: &str) -> Result<Value> {
    eventually(LONG, || {
        let status = mesh.status("n1")?;
        let problems = status["problems"].as_array().cloned().unwrap_or_default();
        let has =
            |p: &Value, key: &str, part: &str| p[key].as_str().is_some_and(|s| s.contains(part));
        let found = problems
            .iter()
            .find(|p| has(p, "origin", file) && has(p, "object", object) && has(p, "field", field));
        found.cloned().with_context(|| {
            format!("no problem of {file}, {object:?}, {field:?} in {problems:#?}")
        })
    })
}

fn service_yaml(name: &str, ip: &str, port: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec:\n  clusterIP: {ip}\n  ports: [{{port: {port}}}]\n"
    )
}

/// File, its text, and the object and field that the problem must name.
fn bad_manifests() -> Vec<(&'static str, String, &'static str, &'static str)> {
    let slice = |address: &str| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: s\n  labels: {{kubernetes.io/service-name: x}}\naddressType: IPv4\nports: [{{port: 80}}]\nendpoints: [{{addresses: [{address}]}}]\n"
        )
    };
    vec![
        (
            "malformed",
            "apiVersion: v1\nkind: [Service\n".into(),
            "",
            "",
        ),
        ("tabs", "apiVersion: v1\n\tkind: Service\n".into(), "", ""),
        ("scalar", "just some text\n".into(), "", ""),
        (
            "no-kind",
            "apiVersion: v1\nmetadata: {name: x}\n".into(),
            "",
            "kind",
        ),
        (
            "unknown-kind",
            "apiVersion: v1\nkind: Sevrice\nmetadata: {name: typo}\n".into(),
            "Sevrice",
            "kind",
        ),
        (
            "no-name",
            "apiVersion: v1\nkind: Service\nmetadata: {}\nspec: {}\n".into(),
            "Service",
            "metadata.name",
        ),
        (
            "bad-name",
            service_yaml("Bad_Name", "10.99.0.1", "80"),
            "Bad_Name",
            "metadata.name",
        ),
        (
            "long-name",
            service_yaml(&"x".repeat(300), "10.99.0.2", "80"),
            "Service",
            "metadata.name",
        ),
        (
            "bad-port",
            service_yaml("port", "10.99.0.3", "70000"),
            "Service default/port",
            "spec.ports[0].port",
        ),
        (
            "text-port",
            service_yaml("text", "10.99.0.4", "http"),
            "Service default/text",
            "spec.ports[0].port",
        ),
        (
            "bad-ip",
            service_yaml("ip", "10.99.0.400", "80"),
            "Service default/ip",
            "spec.clusterIP",
        ),
        (
            "bad-slice",
            slice("10.244.300.1"),
            "EndpointSlice default/s",
            "endpoints[0].addresses[0]",
        ),
        (
            "not-a-list",
            "apiVersion: v1\nkind: Service\nmetadata: {name: l}\nspec: {ports: 80}\n".into(),
            "Service default/l",
            "spec.ports",
        ),
    ]
}

#[test]
fn bad_manifests_are_named_and_the_rest_applies() -> Result {
    let mut mesh = Mesh::start(one_node())?;
    mesh.serve(&["a"])?;
    for (file, text, _, _) in bad_manifests() {
        mesh.apply(file, &text)?;
    }
    // A good document between bad ones of the same file.
    let good = web(1, "between").yaml();
    let mixed = documents([
        "kind: [\n".to_owned(),
        good,
        service_yaml("late", "10.99.0.9", "0"),
    ]);
    mesh.apply("mixed", &mixed)?;
    mesh.service(&web(0, "web"), 1)?;
    mesh.wait_ready_backends("default/between", 1)?;
    assert!(reaches(&mesh, 0)? && reaches(&mesh, 1)?);

    for (file, _, object, field) in bad_manifests() {
        let problem = wait_problem(&mesh, file, object, field)?;
        let origin = problem["origin"].as_str().unwrap_or_default();
        let line = origin
            .rsplit(':')
            .next()
            .and_then(|n| n.parse::<u32>().ok());
        assert!(line.is_some(), "{file}: no line in {problem:#}");
        assert!(
            problem["message"].as_str().is_some_and(|m| !m.is_empty()),
            "{problem:#}"
        );
    }
    wait_problem(&mesh, "mixed", "Service default/late", "spec.ports[0].port")?;

    // The agent is ready all the same, and its log has them too.
    let status = mesh.status("n1")?;
    assert_eq!(status["ready"], true, "{status:#}");
    let log = mesh.weft("n1")?.process().stderr();
    assert!(
        log.contains("bad-port") && log.contains("spec.ports[0].port"),
        "{log}"
    );
    assert!(!log.contains("panicked"), "{log}");

    // Mended, they are gone.
    mesh.apply("bad-port", &service_yaml("port", "10.99.0.3", "80"))?;
    eventually(LONG, || {
        let text = mesh.status("n1")?["problems"].to_string();
        ensure!(!text.contains("bad-port"), "{text}");
        Ok(())
    })
}

#[test]
fn a_manifest_that_breaks_keeps_its_last_good_state() -> Result {
    let mut mesh = Mesh::start(one_node())?;
    mesh.serve(&["a"])?;
    mesh.service(&web(0, "web"), 1)?;
    mesh.apply(
        "service-default-web",
        &service_yaml("web", "10.96.0.1", "99999"),
    )?;
    wait_problem(
        &mesh,
        "service-default-web",
        "Service default/web",
        "spec.ports[0].port",
    )?;
    assert!(reaches(&mesh, 0)?);
    Ok(())
}

#[test]
fn two_services_cannot_have_one_address() -> Result {
    let mut mesh = Mesh::start(one_node())?;
    mesh.serve(&["a"])?;
    mesh.service(&web(0, "first"), 1)?;
    mesh.apply("second", &web(0, "second").yaml())?;
    let problem = wait_problem(&mesh, "", "Service default/", "spec.clusterIPs")?;
    assert!(
        problem["message"]
            .as_str()
            .is_some_and(|m| m.contains("belongs to Service")),
        "{problem:#}"
    );
    assert!(reaches(&mesh, 0)?);
    // The other port of the same address is free.
    let other = ServiceManifest::new("third")
        .cluster_ips(vip_addresses(0))
        .port(ServicePort::tcp(PORT + 1).to(TARGET))
        .selector("app", "web");
    mesh.service(&other, 1)
}

/// A service behind `count` endpoints that nobody will ever reach.
fn many_endpoints(name: &str, index: u16, count: u32) -> Vec<(String, String)> {
    let service = ServiceManifest::new(name)
        .cluster_ips(vip_addresses(index).into_iter().take(1))
        .port(ServicePort::tcp(PORT).to(TARGET));
    let slices = (0..count).step_by(1000).map(|start| {
        let endpoints = (start..count.min(start + 1000)).map(|n| {
            // Documentation and benchmark networks stay free: 100.64.0.0/10 holds four million.
            let [_, b, c, d] = n.to_be_bytes();
            Endpoint::new(std::net::Ipv4Addr::new(100, 64 + b, c, d))
        });
        let slice = EndpointSliceManifest::new(format!("{name}-{start}"), name)
            .port("", "TCP", TARGET)
            .endpoints(endpoints);
        // JSON is YAML, and quicker to write for so many.
        (format!("slice-{name}-{start}"), slice.value().to_string())
    });
    slices
        .chain([(format!("service-{name}"), service.yaml())])
        .collect()
}

/// What a scrape of the node's agent says.
fn metrics(mesh: &Mesh) -> Result<String> {
    let node = mesh.lab.node("n1")?;
    let mut stream = node
        .netns()
        .run(|| TcpStream::connect("127.0.0.1:15020"))??;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn a_full_map_is_said_and_what_fits_keeps_working() -> Result {
    let options = WeftOptions::default().arg("--map-size").arg("backends=50");
    let mut mesh = Mesh::start_with(one_node(), &options)?;
    mesh.serve(&["a"])?;
    mesh.service(&web(0, "small"), 1)?;
    for (file, text) in many_endpoints("big", 1, 200) {
        mesh.apply(&file, &text)?;
    }
    let status = eventually(LONG, || {
        let status = mesh.status("n1")?;
        let maps = status["maps"].as_array().cloned().unwrap_or_default();
        let backends = maps
            .iter()
            .find(|m| m["name"] == "backends")
            .context("no map backends")?;
        ensure!(backends["full"].as_u64() > Some(0), "{maps:#?}");
        assert_eq!(backends["maxEntries"], 50);
        Ok(status)
    })?;
    let said = format!("{}{}", status["reasons"], status["rejections"]);
    assert!(
        said.contains("backends") && said.contains("--map-size"),
        "{status:#}"
    );
    let metrics = metrics(&mesh)?;
    let full = metrics
        .lines()
        .find(|l| l.starts_with("weft_map_full_total{map=\"backends\"}"));
    let count = full.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    assert!(count > Some(0), "{metrics}");
    assert!(reaches(&mesh, 0)?);
    // Services that come later and fit are served.
    mesh.apply("service-later", &web(2, "later").yaml())?;
    eventually(LONG, || {
        ensure!(reaches(&mesh, 2)?, "the later service is not served");
        Ok(())
    })?;
    // Less again: all is well again.
    for (file, _) in many_endpoints("big", 1, 200) {
        mesh.lab.manifests().remove(&file)?;
    }
    eventually(LONG, || {
        let status = mesh.status("n1")?;
        ensure!(
            status["ready"] == true && status["rejections"] == serde_json::json!([]),
            "{status:#}"
        );
        Ok(())
    })
}

#[test]
fn a_hundred_thousand_endpoints_in_one_service() -> Result {
    const COUNT: u32 = 100_000;
    let mut mesh = Mesh::start(one_node())?;
    mesh.serve(&["a"])?;
    mesh.service(&web(0, "small"), 1)?;
    for (file, text) in many_endpoints("big", 1, COUNT) {
        mesh.apply(&file, &text)?;
    }
    let weft = mesh.weft("n1")?;
    eventually(Duration::from_secs(90), || {
        let services = weft.cli_json(&["services", "default/big"])?;
        let ready = services[0]["ready"].as_u64();
        ensure!(ready == Some(u64::from(COUNT)), "{services:#}");
        Ok(())
    })?;
    let counts = by_server(&mesh.pod("client")?.get(vips(0)[0], &GetOptions::tcp(20))?);
    assert_eq!(counts.get("a"), Some(&20));
    let status = mesh.status("n1")?;
    assert_eq!(status["ready"], true, "{:#}", status["reasons"]);
    assert_eq!(status["rejections"], serde_json::json!([]));
    // And away with them.
    for (file, _) in many_endpoints("big", 1, COUNT) {
        mesh.lab.manifests().remove(&file)?;
    }
    mesh.wait_gone("default/big")?;
    eventually(LONG, || {
        let status = mesh.status("n1")?;
        let maps = status["maps"].as_array().cloned().unwrap_or_default();
        let backends = maps
            .iter()
            .find(|m| m["name"] == "backends")
            .context("no map backends")?;
        ensure!(backends["entries"].as_u64() < Some(10), "{backends:#}");
        Ok(())
    })?;
    assert!(reaches(&mesh, 0)?);
    Ok(())
}
