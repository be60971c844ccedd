//! Management servers that are not ours: ordinary, hostile, and half dead.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::ensure;
use prost::Name;
use weft_e2e::ads::AdsServer;
use weft_e2e::envoy::{any, assignment, cluster, listener};
use weft_e2e::mesh::{TARGET, status, vip_addresses, vips};
use weft_e2e::stats::{assert_even, by_server};
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};
use weft_lab::{GetOptions, Lab, Pod, PodSpec, Process, ServeOptions, Weft, WeftOptions};
use weft_proto::envoy::envoy::config::cluster::v3::Cluster;
use weft_proto::envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use weft_proto::envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use weft_proto::envoy::envoy::config::listener::v3::{FilterChain, Listener};
use weft_proto::envoy::envoy::service::discovery::v3::{DeltaDiscoveryResponse, Resource};
use weft_proto::envoy::google::protobuf::Any;
use weft_proto::resource::ResourceType;

const CONTROL: &str = "127.0.0.1:15010";
const WITHIN: Duration = Duration::from_secs(20);

/// A node whose agent hears a server in the test's hand.
struct Site {
    agent: Weft,
    ads: AdsServer,
    _servers: Vec<Process>,
    client: Pod,
    backends: Vec<Pod>,
    _lab: Lab,
}

impl Site {
    fn start() -> Result<Self> {
        let lab = Lab::builder()
            .node("n1")
            .pod(PodSpec::new("client", "n1"))
            .pod(PodSpec::new("a", "n1"))
            .pod(PodSpec::new("b", "n1"))
            .build()?;
        let node = lab.node("n1")?;
        let backends = vec![lab.pod("a")?, lab.pod("b")?];
        let serve = |pod: &Pod| pod.serve(&ServeOptions::tcp(TARGET));
        Ok(Self {
            ads: AdsServer::start(node.netns(), CONTROL.parse()?)?,
            agent: Weft::agent(&node, CONTROL, WeftOptions::default())?,
            _servers: backends.iter().map(serve).collect::<Result<_, _>>()?,
            client: lab.pod("client")?,
            backends,
            _lab: lab,
        })
    }

    /// Service `index` as any server would describe it for Envoys, with these backends.
    fn publish(&self, index: u16, backends: &[&Pod]) -> Result {
        let name = format!("service-{index}");
        let endpoints: Vec<IpAddr> = backends.iter().map(|p| p.addresses().v4.into()).collect();
        let changes = [
            (Cluster::type_url(), any(&cluster(&name))),
            (
                ClusterLoadAssignment::type_url(),
                any(&assignment(&name, &endpoints)),
            ),
            (
                Listener::type_url(),
                any(&listener(&name, vip_addresses(index)[0])),
            ),
        ]
        .map(|(type_url, body)| self.ads.change(&type_url, vec![(name.clone(), Some(body))]));
        for change in &changes {
            self.ads.wait_ack(change, WITHIN)?;
        }
        Ok(())
    }

    fn lands_on(&self, index: u16, expected: &[&str]) -> Result {
        let vip = vips(index)[0];
        eventually(WITHIN, || {
            let attempts = self.client.get(vip, &GetOptions::tcp(2))?;
            ensure!(attempts.iter().all(|a| a.ok()), "{attempts:?}");
            Ok(())
        })?;
        let attempts = self.client.get(vip, &GetOptions::tcp(60))?;
        assert_even(&by_server(&attempts), expected);
        Ok(())
    }

    /// The agent lives, knows what it knew, and did not panic.
    fn assert_sane(&mut self) -> Result {
        self.agent.wait_ready(LONG)?;
        let log = self.agent.process().stderr();
        assert!(!log.contains("panicked"), "{log}");
        Ok(())
    }
}

#[test]
fn a_server_that_knows_only_envoys_types_drives_the_kernel() -> Result {
    let mut site = Site::start()?;
    let (a, b) = (site.backends[0].clone(), site.backends[1].clone());
    site.publish(0, &[&a, &b])?;
    site.agent.wait_ready(LONG)?;
    site.lands_on(0, &["a", "b"])?;

    // Endpoints change, a service comes and one goes.
    site.publish(0, &[&b])?;
    eventually(WITHIN, || {
        let counts = by_server(&site.client.get(vips(0)[0], &GetOptions::tcp(10))?);
        ensure!(counts.len() == 1 && counts.contains_key("b"), "{counts:?}");
        Ok(())
    })?;
    site.publish(1, &[&a])?;
    site.lands_on(1, &["a"])?;
    for type_url in [Listener::type_url(), Cluster::type_url()] {
        let change = site
            .ads
            .change(&type_url, vec![("service-1".to_owned(), None)]);
        site.ads.wait_ack(&change, WITHIN)?;
    }
    eventually(WITHIN, || {
        let options = GetOptions::tcp(1).timeout(Duration::from_millis(300));
        let attempts = site.client.get(vips(1)[0], &options)?;
        ensure!(attempts.iter().all(|a| !a.ok()), "{attempts:?}");
        Ok(())
    })?;
    site.assert_sane()
}

#[test]
fn what_the_kernel_cannot_do_is_refused_by_name_and_nothing_else_is() -> Result {
    let mut site = Site::start()?;
    let a = site.backends[0].clone();
    site.publish(0, &[&a])?;
    site.agent.wait_ready(LONG)?;

    let mut dns = cluster("dns");
    dns.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::StrictDns as i32));
    let good = cluster("service-1");
    let bodies = vec![
        ("dns".to_owned(), Some(any(&dns))),
        ("service-1".to_owned(), Some(any(&good))),
    ];
    let change = site.ads.change(&Cluster::type_url(), bodies);
    let answer = site.ads.wait_answer(&change, WITHIN)?;
    let error = answer.error.unwrap_or_default();
    assert!(error.contains("dns") && error.contains("type"), "{error}");
    assert!(!error.contains("service-1"), "{error}");

    let status = status(&site.agent)?;
    let rejections = status["rejections"].as_array().cloned().unwrap_or_default();
    assert!(
        rejections.iter().any(|r| r["resource"] == "dns"),
        "{rejections:#?}"
    );

    // The good one of the same response counts.
    let ips = [IpAddr::from(a.addresses().v4)];
    let cla = any(&assignment("service-1", &ips));
    site.ads.change(
        &ClusterLoadAssignment::type_url(),
        vec![("service-1".into(), Some(cla))],
    );
    let lis = any(&listener("service-1", vip_addresses(1)[0]));
    let change = site
        .ads
        .change(&Listener::type_url(), vec![("service-1".into(), Some(lis))]);
    site.ads.wait_ack(&change, WITHIN)?;
    site.lands_on(1, &["a"])?;

    // A resource that turns bad keeps its last good state.
    let mut bad = listener("service-0", vip_addresses(0)[0]);
    bad.filter_chains.push(FilterChain::default());
    let change = site.ads.change(
        &Listener::type_url(),
        vec![("service-0".into(), Some(any(&bad)))],
    );
    assert!(site.ads.wait_answer(&change, WITHIN)?.error.is_some());
    site.lands_on(0, &["a"])?;
    site.assert_sane()
}

/// Responses that no honest server sends.
fn hostile() -> Vec<DeltaDiscoveryResponse> {
    let listeners = Listener::type_url();
    let response = |type_url: &str, resources: Vec<Resource>| DeltaDiscoveryResponse {
        type_url: type_url.to_owned(),
        nonce: "hostile".to_owned(),
        resources,
        ..Default::default()
    };
    let resource = |name: &str, body: Option<Any>| Resource {
        name: name.to_owned(),
        version: "1".to_owned(),
        resource: body,
        ..Default::default()
    };
    let garbage = Any {
        type_url: listeners.clone(),
        value: vec![0xff; 4096],
    };
    let other_type = any(&cluster("service-0"));
    let mut nested = listener("deep", vip_addresses(5)[0]);
    nested.filter_chains = vec![FilterChain::default(); 5000];
    let mut nameless = listener("", vip_addresses(5)[0]);
    nameless.additional_addresses.clear();
    let mut removed = response(&listeners, vec![]);
    removed.removed_resources = (0..5000).map(|n| format!("never-{n}")).collect();
    let huge = "x".repeat(1 << 20);
    vec![
        DeltaDiscoveryResponse::default(),
        response("", vec![resource("a", None)]),
        response(
            "type.googleapis.com/no.such.Type",
            vec![resource("a", Some(garbage.clone()))],
        ),
        response(&listeners, vec![resource("service-9", None)]),
        response(
            &listeners,
            vec![resource("service-9", Some(garbage.clone()))],
        ),
        response(&listeners, vec![resource("service-9", Some(other_type))]),
        response(&listeners, vec![resource("", Some(any(&nameless)))]),
        response(
            &listeners,
            vec![resource(
                "another-name",
                Some(any(&listener("deep", vip_addresses(5)[0]))),
            )],
        ),
        response(&listeners, vec![resource("deep", Some(any(&nested)))]),
        response(&listeners, vec![resource(&huge, Some(garbage))]),
        removed,
        DeltaDiscoveryResponse {
            nonce: huge,
            ..response(&listeners, vec![])
        },
    ]
}

#[test]
fn hostile_responses_change_and_crash_nothing() -> Result {
    let mut site = Site::start()?;
    let (a, b) = (site.backends[0].clone(), site.backends[1].clone());
    site.publish(0, &[&a, &b])?;
    site.agent.wait_ready(LONG)?;
    let pid = site.agent.process().pid();
    for response in hostile() {
        site.ads.send_raw(response);
        let attempts = site.client.get(vips(0)[0], &GetOptions::tcp(3))?;
        assert!(attempts.iter().all(|x| x.ok()), "{attempts:?}");
    }
    // It still listens, to whatever stream is open by now.
    site.publish(1, &[&a])?;
    site.lands_on(1, &["a"])?;
    site.lands_on(0, &["a", "b"])?;
    assert!(site.agent.process().is_running());
    assert_eq!(site.agent.process().pid(), pid);
    site.assert_sane()
}

#[test]
fn broken_and_silent_streams_delete_nothing() -> Result {
    let mut site = Site::start()?;
    let (a, b) = (site.backends[0].clone(), site.backends[1].clone());
    site.publish(0, &[&a, &b])?;
    site.agent.wait_ready(LONG)?;
    for _ in 0..4 {
        let before = site.ads.streams();
        site.ads.break_streams();
        site.ads.wait_reconnect(before, LONG)?;
        site.lands_on(0, &["a", "b"])?;
    }
    // Accepted and never answered.
    site.ads.set_silent(true);
    let before = site.ads.streams();
    site.ads.break_streams();
    site.ads.wait_reconnect(before, LONG)?;
    site.lands_on(0, &["a", "b"])?;
    // An agent that starts against it keeps what its predecessor left.
    site.agent.restart()?;
    site.ads.wait_reconnect(before + 1, LONG)?;
    site.lands_on(0, &["a", "b"])?;
    let waiting = status(&site.agent)?;
    assert_eq!(waiting["synced"], false, "{waiting:#}");
    // It speaks again.
    site.ads.set_silent(false);
    let before = site.ads.streams();
    site.ads.break_streams();
    site.ads.wait_reconnect(before, LONG)?;
    site.assert_sane()?;
    site.lands_on(0, &["a", "b"])
}

#[test]
fn a_server_that_lost_everything_takes_effect_only_once_it_says_so() -> Result {
    let mut site = Site::start()?;
    let a = site.backends[0].clone();
    site.publish(0, &[&a])?;
    site.agent.wait_ready(LONG)?;
    site.lands_on(0, &["a"])?;
    // A restarted agent that is told of service 1 only drops service 0, once synced.
    site.publish(1, &[&a])?;
    site.agent.kill9();
    for resource_type in [
        ResourceType::Listener,
        ResourceType::Cluster,
        ResourceType::Endpoints,
    ] {
        site.ads.change(
            resource_type.type_url(),
            vec![("service-0".to_owned(), None)],
        );
    }
    site.lands_on(0, &["a"])?;
    site.agent.restart()?;
    site.agent.wait_ready(LONG)?;
    site.lands_on(1, &["a"])?;
    let vip: SocketAddr = vips(0)[0];
    eventually(LONG, || {
        let attempts = site
            .client
            .get(vip, &GetOptions::tcp(1).timeout(Duration::from_millis(300)))?;
        ensure!(attempts.iter().all(|x| !x.ok()), "{attempts:?}");
        Ok(())
    })
}
