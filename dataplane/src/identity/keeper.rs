//! The task that keeps all certificates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weft_identity::sds::{Secrets, SecretsReceiver};
use weft_identity::{SpiffeId, Svid, TrustBundle, TrustDomain, secret};

use super::ca::{AskError, Ca};
use super::entry::Entry;
use super::roots;
use super::status::SharedIdentities;
use crate::agent::ControlTarget;
use crate::xds::{Connect, KnownRoots};

/// Requests under way at once.
const AT_ONCE: usize = 8;
/// With nothing due, the status is brought up to date this often.
const LOOK_EVERY: Duration = Duration::from_secs(5);

type Asked = (SpiffeId, Result<(Svid, TrustBundle), AskError>);

/// Keeps a certificate for each identity of the node.
pub struct Keeper {
    node: String,
    trust_domain: TrustDomain,
    ca: Arc<Ca>,
    follow: Option<Box<dyn Connect>>,
    wanted: watch::Receiver<BTreeSet<String>>,
    entries: BTreeMap<SpiffeId, Entry>,
    held: Secrets,
    secrets: watch::Sender<Arc<Secrets>>,
    /// The last answer's, for CAs that do not tell in another way.
    answered: Option<TrustBundle>,
    told: Option<Arc<TrustBundle>>,
    /// By which the control plane is known: what it tells counts there, too.
    known: Option<KnownRoots>,
    status: SharedIdentities,
}

impl Keeper {
    /// For the identities in `wanted`, with certificates from `control`.
    #[must_use]
    pub fn new(
        node: &str,
        trust_domain: TrustDomain,
        control: &ControlTarget,
        wanted: watch::Receiver<BTreeSet<String>>,
    ) -> Self {
        let status = SharedIdentities::default();
        status.update(|s| s.trust_domain = trust_domain.to_string());
        Self {
            node: node.to_owned(),
            trust_domain,
            ca: Ca::new(node, control.connect()),
            follow: Some(control.connect()),
            wanted,
            entries: BTreeMap::new(),
            held: Secrets::default(),
            secrets: watch::Sender::new(Arc::default()),
            answered: None,
            told: None,
            known: control.roots(),
            status,
        }
    }

    /// Certificates and trust bundle for SDS: under its SPIFFE ID each, and under [`secret::ROOT_CA`].
    #[must_use]
    pub fn secrets(&self) -> SecretsReceiver {
        self.secrets.subscribe()
    }

    /// What others can see.
    #[must_use]
    pub fn status(&self) -> SharedIdentities {
        self.status.clone()
    }

    /// Keeps them until `drain` is cancelled.
    ///
    /// # Errors
    /// When it was run before.
    pub async fn run(mut self, drain: CancellationToken) -> Result<(), String> {
        let (tell, mut told) = watch::channel(None);
        let Some(follow) = self.follow.take() else {
            return Err("it runs already".to_owned());
        };
        let follow = roots::follow(self.node.clone(), follow, tell, self.status.clone());
        let mut tasks = JoinSet::new();
        tokio::select! {
            () = drain.cancelled() => {}
            () = follow => {}
            () = self.keep(&mut told, &mut tasks) => {}
        }
        Ok(())
    }

    async fn keep(
        &mut self,
        told: &mut watch::Receiver<Option<Arc<TrustBundle>>>,
        tasks: &mut JoinSet<Asked>,
    ) {
        self.want();
        loop {
            self.ask(tasks);
            self.report();
            let wake = tokio::time::Instant::from_std(self.next_wake(tasks.len()));
            tokio::select! {
                Ok(()) = self.wanted.changed() => self.want(),
                Ok(()) = told.changed() => {
                    self.told = told.borrow_and_update().clone();
                    if let (Some(known), Some(told)) = (&self.known, &self.told) {
                        known.learn(told);
                    }
                    self.publish_roots();
                }
                Some(asked) = tasks.join_next() => match asked {
                    Ok((id, answer)) => self.answered(&id, answer),
                    Err(e) => tracing::error!("a request for a certificate: {e}"),
                },
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// Compares what there is with what there has to be.
    fn want(&mut self) {
        let ids = self.wanted.borrow_and_update().clone();
        let own = |id: &String| {
            let id = id.parse::<SpiffeId>().ok();
            id.filter(|id| id.trust_domain == self.trust_domain)
        };
        let wanted: BTreeSet<SpiffeId> = ids.iter().filter_map(own).collect();
        let foreign = ids.len() - wanted.len();
        let gone = self.entries.keys().filter(|id| !wanted.contains(id));
        for id in gone.cloned().collect::<Vec<_>>() {
            self.entries.remove(&id);
            self.held.remove(&id.to_string());
        }
        let now = Instant::now();
        for id in wanted {
            self.entries.entry(id).or_insert_with(|| Entry::new(now));
        }
        self.status.update(|s| s.foreign = foreign);
        self.publish();
    }

    /// Sends requests that are due, as many as may be under way.
    fn ask(&mut self, tasks: &mut JoinSet<Asked>) {
        let now = Instant::now();
        let due = self
            .entries
            .iter_mut()
            .filter(|(_, e)| !e.asked && e.due <= now);
        for (id, entry) in due {
            if tasks.len() >= AT_ONCE {
                break;
            }
            entry.asked = true;
            let (id, ca) = (id.clone(), Arc::clone(&self.ca));
            tasks.spawn(async move {
                let answer = ca.ask(&id).await;
                (id, answer)
            });
        }
    }

    fn next_wake(&self, under_way: usize) -> Instant {
        let latest = Instant::now() + LOOK_EVERY;
        if under_way >= AT_ONCE {
            return latest;
        }
        let idle = self.entries.values().filter(|e| !e.asked);
        idle.map(|e| e.due)
            .min()
            .map_or(latest, |due| due.min(latest))
    }

    fn answered(&mut self, id: &SpiffeId, answer: Result<(Svid, TrustBundle), AskError>) {
        self.status.update(|s| {
            s.no_ca = matches!(answer, Err(AskError::NoCa));
            match &answer {
                Ok(_) => s.issued += 1,
                Err(_) => s.failed += 1,
            }
        });
        // Its last pod may have gone meanwhile: then its key goes, too.
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        match answer {
            Ok((svid, roots)) => {
                self.held.insert(id.to_string(), secret::certificate(&svid));
                entry.take(svid, Instant::now());
                tracing::debug!(%id, "certificate received");
                self.answered = Some(roots);
                self.publish_roots();
            }
            Err(error) => {
                match error {
                    AskError::NoCa => tracing::debug!(%id, "{error}"),
                    AskError::Failed(_) => tracing::warn!(%id, "no certificate: {error}"),
                }
                entry.fail(error.to_string(), Instant::now());
            }
        }
    }

    /// What the control plane tells by itself is newer than what it said when it signed.
    fn publish_roots(&mut self) {
        let roots = self.told.as_deref().or(self.answered.as_ref());
        if let Some(roots) = roots {
            let validation = secret::validation(roots);
            self.held.insert(secret::ROOT_CA.to_owned(), validation);
            let end = roots.not_after().map_or(0, |end| end.unix_timestamp());
            self.status.update(|s| {
                s.bundle = roots.to_string();
                s.roots = roots.len();
                s.roots_not_after = end;
            });
        }
        self.publish();
    }

    fn publish(&self) {
        self.secrets.send_replace(Arc::new(self.held.clone()));
    }

    fn report(&self) {
        let all = self.entries.iter().map(|(id, e)| e.status(&id.to_string()));
        let all = all.collect();
        self.status.update(|s| s.certificates = all);
    }
}
