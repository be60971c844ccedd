//! A thousand endpoint changes a second: every connection lands on a backend that was listed at that moment.
//!
//! The test is the management server. Each version of a service's endpoints may be in force from the moment it is sent until the
//! moment its successor is acknowledged, for an ACK says that the kernel has it. A connection is judged by that: where it
//! landed must be in a version that may have been in force between its beginning and its end.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use weft_e2e::Result;
use weft_e2e::ads::{AdsServer, Change};
use weft_e2e::mesh::{PORT, vip_addresses, vips};
use weft_e2e::wait::LONG;
use weft_lab::probe::{Landing, Summary, monotonic_ns};
use weft_lab::{Lab, Load, LoadOptions, Pod, PodSpec, Process, ServeOptions, Weft, WeftOptions};
use weft_proto::model::{
    Cluster, ClusterEndpoints, Endpoint, EndpointSource, Health, Layer, LbPolicy, Listener,
    Locality, LocalityMode, Protocol, Resource,
};

const CONTROL: &str = "127.0.0.1:15010";
const STORM: Duration = Duration::from_secs(30);
/// Between two responses.
const BEAT: Duration = Duration::from_millis(20);
/// Services that change at every beat: 50 beats a second make 1,000 changes.
const SERVICES: usize = 20;
/// Servers, on ports of one pod; a version lists [`LISTED`] of them.
const SERVERS: usize = 12;
const LISTED: usize = 4;
const FIRST_PORT: u16 = 9000;

/// How backends leave a service.
#[derive(Clone, Copy, PartialEq)]
enum Leaving {
    /// They stay as draining: no new connections, and no open one breaks.
    Draining,
    /// They are gone: open connections break.
    Removed,
}

/// Service 0 drains, all others remove; clients use 0 and 1.
fn leaving(service: usize) -> Leaving {
    if service == 0 {
        Leaving::Draining
    } else {
        Leaving::Removed
    }
}

fn name(service: usize) -> String {
    format!("storm/{service}")
}

fn server_name(server: usize) -> String {
    format!("s{server}")
}

/// The servers that beat `beat` lists for `service`: a window that slides, so that what is stale shows.
fn listed(service: usize, beat: usize) -> Vec<usize> {
    (0..LISTED)
        .map(|n| (service + beat + n) % SERVERS)
        .collect()
}

fn endpoints(service: usize, beat: usize, pod: &Pod) -> Resource {
    let listed = listed(service, beat);
    let endpoint = |server: usize| -> Option<Endpoint> {
        let health = match (listed.contains(&server), leaving(service)) {
            (true, _) => Health::Healthy,
            (false, Leaving::Draining) => Health::Draining,
            (false, Leaving::Removed) => return None,
        };
        let port = FIRST_PORT + u16::try_from(server).ok()?;
        Some(Endpoint {
            address: pod.socket_v4(port),
            weight: 1,
            priority: 0,
            health,
            locality: Locality::default(),
        })
    };
    Resource::Endpoints(ClusterEndpoints {
        name: name(service),
        endpoints: (0..SERVERS).filter_map(endpoint).collect(),
    })
}

fn cluster(service: usize) -> Resource {
    Resource::Cluster(Cluster {
        name: name(service),
        endpoints: EndpointSource::Eds(name(service)),
        policy: LbPolicy::Random,
        affinity: None,
        locality: LocalityMode::None,
        connect_timeout: None,
        max_connections: None,
        outlier: None,
        unaccelerated: false,
        http: false,
    })
}

fn listener(service: usize) -> Result<Resource> {
    Ok(Resource::Listener(Listener {
        name: name(service),
        service: None,
        addresses: vec![vip_addresses(u16::try_from(service)?)[0]],
        port: PORT,
        protocol: Protocol::Tcp,
        cluster: name(service),
        layer: Layer::Four,
        side: weft_proto::model::Side::Inside,
        source_ranges: Vec::new(),
        health_check_port: None,
        idle_timeout: None,
        max_duration: None,
        connections_per_second: None,
    }))
}

/// One response of the storm.
struct Beat {
    sent_ns: u64,
    change: Change,
    /// When it was acknowledged.
    acked_ns: u64,
}

struct Site {
    agent: Weft,
    ads: AdsServer,
    _servers: Vec<Process>,
    client: Pod,
    server: Pod,
    lab: Lab,
}

impl Site {
    fn start() -> Result<Self> {
        let lab = Lab::builder()
            .node("n1")
            .pod(PodSpec::new("client", "n1"))
            .pod(PodSpec::new("server", "n1"))
            .build()?;
        let node = lab.node("n1")?;
        let server = lab.pod("server")?;
        let serve = |n: usize| -> Result<Process> {
            let options = ServeOptions::tcp(FIRST_PORT + u16::try_from(n)?).name(server_name(n));
            Ok(server.serve(&options)?)
        };
        let site = Self {
            ads: AdsServer::start(node.netns(), CONTROL.parse()?)?,
            agent: Weft::agent(&node, CONTROL, WeftOptions::default())?,
            _servers: (0..SERVERS).map(serve).collect::<Result<_>>()?,
            client: lab.pod("client")?,
            server,
            lab,
        };
        site.ads
            .set(&(0..SERVICES).map(cluster).collect::<Vec<_>>());
        site.beat(0);
        let listeners = (0..SERVICES).map(listener).collect::<Result<Vec<_>>>()?;
        let change = site.ads.set(&listeners);
        site.ads.wait_ack(&change, LONG)?;
        site.agent.wait_ready(LONG)?;
        Ok(site)
    }

    fn beat(&self, number: usize) -> Beat {
        let resources: Vec<Resource> = (0..SERVICES)
            .map(|service| endpoints(service, number, &self.server))
            .collect();
        let sent_ns = monotonic_ns();
        Beat {
            sent_ns,
            change: self.ads.set(&resources),
            acked_ns: u64::MAX,
        }
    }

    fn load(&self, service: u16) -> Result<Load> {
        let to: SocketAddr = vips(service)[0];
        let log = self.lab.dir().join(format!("landings-{service}"));
        let options = LoadOptions {
            log: Some(log),
            ..LoadOptions::connects(300, STORM)
        };
        Ok(self.client.load(to, &options)?)
    }

    /// Sends beats until the storm is over, noting ACKs as they come.
    fn storm(&self) -> Result<Vec<Beat>> {
        let mut beats = vec![self.beat(0)];
        let started = Instant::now();
        let mut open = 0;
        while started.elapsed() < STORM + Duration::from_millis(500) {
            let due = started + BEAT * u32::try_from(beats.len())?;
            sleep(due.saturating_duration_since(Instant::now()));
            open = self.note_acks(&mut beats, open)?;
            let next = beats.len();
            beats.push(self.beat(next));
        }
        let last = &beats[beats.len() - 1];
        self.ads.wait_ack(&last.change, Duration::from_secs(5))?;
        self.note_acks(&mut beats, open)?;
        Ok(beats)
    }

    /// Notes answers from beat `open` on, and returns the first beat without one. A version that was overtaken before it was
    /// answered counts as answered with its successor.
    fn note_acks(&self, beats: &mut [Beat], open: usize) -> Result<usize> {
        for beat in beats.iter_mut().skip(open) {
            let Some(ack) = self.ads.answer(&beat.change) else {
                break;
            };
            ensure!(ack.error.is_none(), "refused: {:?}", ack.error);
            beat.acked_ns = beat.acked_ns.min(ack.at_ns);
        }
        Ok(beats
            .iter()
            .position(|beat| beat.acked_ns == u64::MAX)
            .unwrap_or(beats.len()))
    }
}

/// The servers that may have been chosen for `service` between `begin` and `end`.
fn possible(beats: &[Beat], service: usize, begin: u64, end: u64) -> Vec<String> {
    let mut servers = Vec::new();
    for (number, beat) in beats.iter().enumerate() {
        let until = beats.get(number + 1).map_or(u64::MAX, |next| next.acked_ns);
        // The first was in force before the storm as well.
        let from = if number == 0 { 0 } else { beat.sent_ns };
        if from <= end && begin <= until {
            servers.extend(listed(service, number).into_iter().map(server_name));
        }
    }
    servers
}

/// How many landings there were, after none was found wrong.
fn judge(beats: &[Beat], service: usize, landings: &[Landing]) -> usize {
    let mut landed = 0;
    let mut telling = 0;
    for landing in landings {
        let Some(server) = &landing.server else {
            continue;
        };
        let possible = possible(beats, service, landing.begin_ns, landing.end_ns);
        assert!(
            possible.contains(server),
            "service {service}: landed on {server}, listed were {possible:?}: {landing:?}"
        );
        landed += 1;
        let distinct: std::collections::BTreeSet<&String> = possible.iter().collect();
        telling += usize::from(distinct.len() < SERVERS);
    }
    // A judgement over windows so wide that every server is possible is none; while the machine is busy with other things,
    // some are.
    assert!(
        telling * 2 > landed,
        "only {telling} of {landed} landings could be judged"
    );
    landed
}

fn lag_ms(beats: &[Beat], share: f64) -> Result<u64> {
    let mut lags: Vec<u64> = beats
        .iter()
        .map(|b| b.acked_ns.saturating_sub(b.sent_ns) / 1_000_000)
        .collect();
    lags.sort_unstable();
    let index = ((lags.len() - 1) as f64 * share) as usize;
    lags.get(index).copied().context("no beats")
}

#[test]
fn every_connection_lands_on_a_listed_backend() -> Result {
    let mut site = Site::start()?;
    let loads = [site.load(0)?, site.load(1)?];
    let beats = site.storm()?;
    let [draining, removing] = loads.map(Load::finish_with_log);
    let (sum, landings): (Summary, Vec<Landing>) = draining?;

    let changes = beats.len() * SERVICES;
    let seconds = STORM.as_secs_f64();
    eprintln!(
        "{changes} endpoint changes; ACK after {} ms (median), {} ms (p99); {} connects, {} failed",
        lag_ms(&beats, 0.5)?,
        lag_ms(&beats, 0.99)?,
        sum.requests,
        sum.failed
    );
    assert!(
        changes as f64 > 900.0 * seconds,
        "no storm: {changes} changes in {seconds} s"
    );
    assert!(lag_ms(&beats, 0.5)? < 100, "the agent falls behind");

    // Nothing breaks where backends only drain...
    assert_eq!(sum.failed, 0, "{sum:?}");
    let landed = judge(&beats, 0, &landings);
    assert!(landed > 3000, "hardly a load: {sum:?}");

    // ...and where they vanish, what breaks was on one that vanished.
    let (sum, landings) = removing?;
    let broken = ["ECONNABORTED", "ECONNRESET", "EPIPE", "EOF"];
    assert!(
        sum.errors.keys().all(|e| broken.contains(&e.as_str())),
        "{sum:?}"
    );
    assert!(judge(&beats, 1, &landings) > 3000, "hardly a load: {sum:?}");

    let log = site.agent.process().stderr();
    assert!(!log.contains("panicked"), "{log}");
    Ok(())
}
