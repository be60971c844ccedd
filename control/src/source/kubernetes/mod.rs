//! A Kubernetes API server.
//!
//! Each kind is listed and watched on its own, and read by the same code as a manifest in a folder. What an API server does
//! not answer deletes nothing: an object is gone when it was deleted, or is missing in a list that came whole.

mod connect;
mod discover;
mod faults;
mod seen;
mod watch;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::connect::{Access, ConnectError};
pub(crate) use self::discover::resource;
use self::discover::{Groups, Served};
use self::seen::Seen;
use self::watch::{Ended, Progress, Target, Watch};
use super::{Event, Events, Source};
use crate::object::Kind;

/// How often kinds that are not there are looked for.
const LOOK: Duration = Duration::from_secs(5);
/// A kind that was there is gone when it is missing in this many looks in a row: a server that starts does not have
/// all of its kinds at once.
const GONE_AFTER: u32 = 4;

/// An API server.
#[derive(Clone)]
pub struct Kubernetes {
    client: Client,
    /// Empty: all.
    namespaces: Vec<String>,
}

impl fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubernetes")
            .field("namespaces", &self.namespaces)
            .finish_non_exhaustive()
    }
}

impl Kubernetes {
    /// The server that `access` leads to; it is not asked anything yet. With `namespaces`, nothing else is read of kinds
    /// that have one.
    ///
    /// # Errors
    /// When `access` cannot be used.
    pub async fn connect(access: &Access, namespaces: Vec<String>) -> Result<Self, ConnectError> {
        let client = access.client().await?;
        Ok(Self { client, namespaces })
    }

    /// What asks the server.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }
}

impl Source for Kubernetes {
    type Error = std::convert::Infallible;

    async fn run(
        self,
        events: mpsc::Sender<Events>,
        drain: CancellationToken,
    ) -> Result<(), Self::Error> {
        let (progress, reports) = mpsc::unbounded_channel();
        let watches = Watches {
            client: self.client,
            namespaces: self.namespaces,
            events,
            progress,
            tasks: JoinSet::new(),
            absent: HashMap::new(),
            running: HashSet::new(),
            unsettled: HashSet::new(),
            synced: false,
            told: HashSet::new(),
        };
        tokio::select! {
            () = watches.run(reports) => {}
            () = drain.cancelled() => {}
        }
        Ok(())
    }
}

/// A kind that is not there.
#[derive(Default)]
struct Absent {
    seen: Seen,
    looks: u32,
}

/// All watches.
struct Watches {
    client: Client,
    namespaces: Vec<String>,
    events: mpsc::Sender<Events>,
    progress: mpsc::UnboundedSender<(Target, Progress)>,
    tasks: JoinSet<(Watch, Ended)>,
    absent: HashMap<Target, Absent>,
    running: HashSet<Target>,
    /// What has to be listed before anything is published.
    unsettled: HashSet<Target>,
    synced: bool,
    /// What was told of kinds.
    told: HashSet<Kind>,
}

impl Watches {
    async fn run(mut self, mut reports: mpsc::UnboundedReceiver<(Target, Progress)>) {
        self.begin().await;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.events.is_closed() {
            self.sync().await;
            tokio::select! {
                Some((target, progress)) = reports.recv() => {
                    if progress == Progress::Listed || !is_essential(target.kind) {
                        self.unsettled.remove(&target);
                    }
                }
                Some(Ok((watch, ended))) = self.tasks.join_next() => {
                    if ended == Ended::Closed {
                        return;
                    }
                    self.lost(watch);
                }
                _ = look.tick() => {
                    if let Err(error) = self.look().await {
                        tracing::debug!(%error, "looking for kinds failed");
                    }
                }
            }
        }
    }

    /// Everything that the server has is to be listed before anything is published.
    async fn begin(&mut self) {
        for kind in Kind::ALL {
            for target in self.targets(kind) {
                self.absent.insert(target, Absent::default());
            }
        }
        let key = faults::ORIGIN.to_owned();
        let mut failures = 0;
        while let Err(error) = self.look().await {
            failures += 1;
            let problem = faults::unreachable(&error);
            let event = Event::Problems(key.clone(), vec![problem]);
            if self.events.send(vec![event]).await.is_err() {
                return;
            }
            tokio::time::sleep(faults::wait(failures)).await;
        }
        if failures > 0 {
            let event = Event::Problems(key, Vec::new());
            let _ = self.events.send(vec![event]).await;
        }
        self.unsettled = self.running.clone();
    }

    async fn sync(&mut self) {
        if !self.synced && self.unsettled.is_empty() {
            self.synced = true;
            let _ = self.events.send(vec![Event::Synced]).await;
        }
    }

    fn targets(&self, kind: Kind) -> Vec<Target> {
        if self.namespaces.is_empty() || !kind.is_namespaced() {
            return vec![Target {
                kind,
                namespace: None,
            }];
        }
        let target = |namespace: &String| Target {
            kind,
            namespace: Some(namespace.clone()),
        };
        self.namespaces.iter().map(target).collect()
    }

    /// Starts watching what is there now and was not before.
    async fn look(&mut self) -> kube::Result<()> {
        let kinds: BTreeSet<Kind> = self.absent.keys().map(|t| t.kind).collect();
        if kinds.is_empty() {
            return Ok(());
        }
        let groups = Groups::ask(&self.client).await?;
        for kind in kinds {
            let served = groups.find(&self.client, kind).await?;
            self.found(kind, served).await;
        }
        Ok(())
    }

    async fn found(&mut self, kind: Kind, served: Served) {
        let resource = match served {
            Served::As(resource) => {
                self.tell(kind, None).await;
                resource
            }
            Served::Otherwise(resources) => {
                let names: Vec<_> = resources.iter().map(|r| r.api_version.clone()).collect();
                self.tell(kind, Some(&names)).await;
                // Who may talk to whom is read as well as can be: to pass over it would let everybody in.
                match resources.into_iter().next() {
                    Some(resource) if kind.is_access() => resource,
                    _ => return self.missing(kind).await,
                }
            }
            Served::No => {
                self.tell(kind, None).await;
                return self.missing(kind).await;
            }
        };
        for target in self.targets(kind) {
            if let Some(absent) = self.absent.remove(&target) {
                self.start(target, resource.clone(), absent.seen);
            }
        }
    }

    async fn tell(&mut self, kind: Kind, other_versions: Option<&[String]>) {
        let problems: Vec<_> = other_versions
            .map(|v| faults::other_version(kind, v))
            .into_iter()
            .collect();
        if problems.is_empty() && !self.told.remove(&kind) {
            return;
        }
        if !problems.is_empty() {
            self.told.insert(kind);
        }
        let key = format!("{}/{}", faults::ORIGIN, kind.as_str());
        let _ = self.events.send(vec![Event::Problems(key, problems)]).await;
    }

    async fn missing(&mut self, kind: Kind) {
        for target in self.targets(kind) {
            let Some(absent) = self.absent.get_mut(&target) else {
                continue;
            };
            absent.looks += 1;
            if absent.looks == GONE_AFTER {
                let events = absent.seen.clear();
                let _ = self.events.send(events).await;
            }
        }
    }

    fn start(&mut self, target: Target, resource: kube::core::ApiResource, seen: Seen) {
        tracing::debug!(?target, "watching");
        self.running.insert(target.clone());
        let watch = Watch {
            essential: !self.synced && is_essential(target.kind),
            target,
            resource,
            client: self.client.clone(),
            events: self.events.clone(),
            progress: self.progress.clone(),
            seen,
            told: false,
            failures: 0,
        };
        self.tasks.spawn(watch.run());
    }

    /// The server does not have the kind any more.
    fn lost(&mut self, watch: Watch) {
        let Watch { target, seen, .. } = watch;
        self.running.remove(&target);
        self.unsettled.remove(&target);
        self.absent.insert(target, Absent { seen, looks: 0 });
    }
}

/// Kinds without which nothing is published at first, though the right to read them is missing: without them, a control plane
/// that was just started would take back what protects the cluster.
fn is_essential(kind: Kind) -> bool {
    kind.is_access() || matches!(kind, Kind::Namespace | Kind::Pod)
}
