//! One size: a lab, the peers in it, every case, and all of it gone again.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use weft_lab::{Lab, Node};

use crate::case::{self, Contestant, Load, Pace};
use crate::kubernetes::ControlPlane;
use crate::peer::{Kind, KubeProxy, Proxy, Weft};
use crate::plan::Plan;
use crate::results::{Stage, Sync};
use crate::site::Site;

/// Pause between two changes, see [`Pace::pause`].
const KUBE_PROXY_PAUSE: Duration = Duration::from_millis(1_200);
const WEFT_PAUSE: Duration = Duration::from_millis(50);

/// How thorough a run is, and where its programs are.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who takes part.
    pub peers: Vec<Kind>,
    /// Folder of kube-apiserver and kube-proxy.
    pub kubernetes: PathBuf,
    /// The `weft` program.
    pub weft: PathBuf,
    /// For the rates.
    pub load: Load,
    /// Changes of an endpoint for a kube-proxy.
    pub kube_proxy_changes: u32,
    /// Changes of an endpoint for Weft, which needs no pause between two of them.
    pub weft_changes: u32,
    /// Longest wait for a peer's full sync; a peer that takes longer is left out of
    /// the size's other cases.
    pub sync_bound: Duration,
}

/// What is measured at a size, besides full sync and changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// New connections.
    Connections,
    /// New connections, and requests over open ones.
    All,
}

/// Measures everything at one size.
pub fn run(settings: &Settings, plan: Plan, scope: Scope) -> Result<Stage> {
    let say = Progress::new(&plan);
    let lab = build(&settings.peers)?;
    let control = lab.node("control")?;
    let kubernetes = settings.peers.iter().any(|kind| reads_api(*kind));
    let plane = if kubernetes {
        say.that("control plane");
        let plane = ControlPlane::start(&lab, &control, &settings.kubernetes)?;
        say.that("services and endpoints into the API server");
        plane.load(&plan, lab.nodes())?;
        Some(Rc::new(plane))
    } else {
        None
    };

    let (mut peers, mut far_sides) = (Vec::new(), Vec::new());
    let mut stage = Stage {
        plan,
        syncs: Vec::new(),
        rates: Vec::new(),
        changes: Vec::new(),
    };
    for kind in &settings.peers {
        let contestant = |site: Site| -> Result<Contestant> {
            Ok(Contestant {
                kind: *kind,
                proxy: proxy(settings, *kind, &lab, &site.node, plan, plane.as_ref())?,
                site,
            })
        };
        let mut peer = contestant(Site::start(&lab, kind.slug())?)?;
        say.that(&format!("{}: start", kind.title()));
        let sync = case::sync(&mut peer, &plan, settings.sync_bound)?;
        let mut in_time = is_in_time(sync.as_ref());
        stage.syncs.extend(sync);
        if in_time && peer.proxy.is_some() {
            say.that(&format!("{}: start on the other node", kind.title()));
            let mut far_side = contestant(Site::far_side(&lab, kind.slug())?)?;
            in_time = is_in_time(case::sync(&mut far_side, &plan, settings.sync_bound)?.as_ref());
            far_sides.push(far_side);
        }
        if in_time {
            peers.push(peer);
        } else {
            say.that(&format!("{}: given up", kind.title()));
        }
    }

    say.that("new connections");
    stage
        .rates
        .push(case::connections(&mut peers, &plan, settings.load)?);
    if scope == Scope::All {
        say.that("requests over open connections");
        stage
            .rates
            .extend(case::requests(&mut peers, &plan, settings.load)?);
    }
    freeze(&far_sides);
    for index in 0..peers.len() {
        freeze_all_but(&peers, index);
        let Some(peer) = peers.get_mut(index) else {
            continue;
        };
        if peer.proxy.is_none() {
            continue;
        }
        let pace = pace(settings, peer.kind);
        say.that(&format!("{}: changes of an endpoint", peer.kind.title()));
        stage.changes.extend(case::change(peer, &plan, pace)?);
    }
    say.that("taking down");
    Ok(stage)
}

fn is_in_time(sync: Option<&Sync>) -> bool {
    sync.is_none_or(|sync| sync.connected_seconds.is_some())
}

fn is_kube_proxy(kind: Kind) -> bool {
    matches!(kind, Kind::Iptables | Kind::Nftables)
}

/// Who gets services from the API server.
fn reads_api(kind: Kind) -> bool {
    is_kube_proxy(kind) || kind == Kind::WeftKubernetes
}

fn build(peers: &[Kind]) -> Result<Lab> {
    let mut lab = Lab::builder().node("control");
    for kind in peers {
        lab = Site::describe(lab, kind.slug());
    }
    Ok(lab.build()?)
}

fn proxy(
    settings: &Settings,
    kind: Kind,
    lab: &Lab,
    node: &Node,
    plan: Plan,
    plane: Option<&Rc<ControlPlane>>,
) -> Result<Option<Box<dyn Proxy>>> {
    if matches!(kind, Kind::Weft | Kind::WeftKubernetes) {
        let plane = plane.filter(|_| kind == Kind::WeftKubernetes).cloned();
        let weft = Weft::new(settings.weft.clone(), lab, node, plan, plane)?;
        return Ok(Some(Box::new(weft)));
    }
    let Some(plane) = plane.filter(|_| is_kube_proxy(kind)) else {
        return Ok(None);
    };
    let program = settings.kubernetes.join("kube-proxy");
    let proxy = KubeProxy::new(kind, program, lab, node, plan, Rc::clone(plane))?;
    Ok(Some(Box::new(proxy)))
}

fn pace(settings: &Settings, kind: Kind) -> Pace {
    if is_kube_proxy(kind) {
        Pace {
            changes: settings.kube_proxy_changes,
            pause: KUBE_PROXY_PAUSE,
        }
    } else {
        Pace {
            changes: settings.weft_changes,
            pause: WEFT_PAUSE,
        }
    }
}

fn freeze(peers: &[Contestant]) {
    freeze_all_but(peers, peers.len());
}

/// All kube-proxies see every change at the API server, and would compete for the
/// CPU with the one that is measured.
fn freeze_all_but(peers: &[Contestant], index: usize) {
    for (other, peer) in peers.iter().enumerate() {
        if let Some(proxy) = &peer.proxy {
            proxy.freeze(other != index);
        }
    }
}

/// What the bench is doing, on standard error.
struct Progress {
    plan: Plan,
    began: Instant,
}

impl Progress {
    fn new(plan: &Plan) -> Self {
        Self {
            plan: *plan,
            began: Instant::now(),
        }
    }

    fn that(&self, what: &str) {
        let Plan {
            services,
            endpoints,
        } = self.plan;
        let elapsed = self.began.elapsed().as_secs();
        eprintln!("bench: {services} x {endpoints} [{elapsed:>3} s] {what}");
    }
}
