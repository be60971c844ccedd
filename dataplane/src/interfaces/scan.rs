//! One look at the node: find, attach, detach, publish.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::book::Book;
use super::find::{Missing, Search};
use super::notices::Notice;
use super::peer;
use super::report::{MissingPod, PodAttachment, Report};
use super::snapshot::{Interface, Kernel};
use super::{InterfaceIndex, LocalInterfaces, PodPrograms, WantedPods};
use crate::netns::PeerNamespaces;

/// After a restart a quiet pod's neighbour entry may be gone: what an earlier agent wrote is not given up before this.
const SETTLE: Duration = Duration::from_secs(2);
/// The net below: everything is looked at again at least so often.
const REGULAR: Duration = Duration::from_secs(5);
/// Pods' namespaces are entered at most so often.
const PEERS_PAUSE: Duration = Duration::from_millis(300);

/// Everything that lasts from look to look.
pub(super) struct Scanner {
    kernel: Kernel,
    namespaces: PeerNamespaces,
    programs: Box<dyn PodPrograms>,
    book: Book,
    /// Interfaces that have this agent's programs.
    attached: BTreeSet<InterfaceIndex>,
    /// Interfaces that may have an earlier agent's, or only one of the two.
    inherited: BTreeSet<InterfaceIndex>,
    errors: BTreeMap<InterfaceIndex, String>,
    full_at: Option<Instant>,
    peers_at: Option<Instant>,
    complete_since: Option<Instant>,
    settled: bool,
}

/// Where the results go.
pub(super) struct Outlets {
    pub(super) interfaces: watch::Sender<LocalInterfaces>,
    pub(super) report: watch::Sender<Report>,
}

impl Scanner {
    pub(super) fn new(mut programs: Box<dyn PodPrograms>) -> io::Result<Self> {
        let inherited = programs.attached()?;
        Ok(Self {
            kernel: Kernel::open()?,
            namespaces: PeerNamespaces::new()?,
            programs,
            book: Book::default(),
            attached: BTreeSet::new(),
            inherited,
            errors: BTreeMap::new(),
            full_at: None,
            peers_at: None,
            complete_since: None,
            settled: false,
        })
    }

    /// Looks, acts and publishes.
    pub(super) fn scan(&mut self, wanted: &WantedPods, notice: Notice, outlets: &Outlets) {
        let now = Instant::now();
        match self.look(wanted, notice, now) {
            Ok((interfaces, host)) => {
                self.attach(&interfaces, notice, |scanner| {
                    scanner.publish(wanted, &host, outlets);
                });
                self.detach(wanted, &interfaces);
                self.settle(wanted, now);
                self.publish(wanted, &host, outlets);
                let report = self.report(wanted, &interfaces);
                outlets.report.send_replace(report);
            }
            // What is attached stays so; the next look may fare better.
            Err(e) => outlets.report.send_modify(|report| {
                report.failure = Some(format!("interfaces cannot be listed: {e}"));
            }),
        }
    }

    /// Whether some address has no interface yet.
    pub(super) fn is_searching(&self) -> bool {
        !self.book.is_complete()
    }

    /// When the next look is due, if nothing happens.
    pub(super) fn patience(&self, now: Instant) -> Duration {
        let missed_for = |since| now.saturating_duration_since(since);
        match self.book.newest_absence().map(missed_for) {
            Some(missed) if missed < Duration::from_secs(5) => Duration::from_millis(100),
            Some(missed) if missed < Duration::from_secs(60) => Duration::from_secs(1),
            _ => REGULAR,
        }
    }

    /// What a look that nothing calls for is to cover.
    pub(super) fn due(&self, now: Instant) -> Notice {
        match self.full_at {
            Some(at) if now.saturating_duration_since(at) < REGULAR => Notice::Missing,
            _ => Notice::All,
        }
    }

    fn look(
        &mut self,
        wanted: &WantedPods,
        notice: Notice,
        now: Instant,
    ) -> io::Result<(BTreeMap<InterfaceIndex, Interface>, BTreeSet<IpAddr>)> {
        if notice == Notice::All {
            self.full_at = Some(now);
        }
        let interfaces = self.kernel.interfaces()?;
        let host = self.kernel.addresses()?;
        let mut looked = BTreeMap::new();
        let mut search = Search::new(&mut self.kernel, &interfaces);
        for address in self.book.addresses(wanted, notice == Notice::All) {
            looked.insert(address, search.find(address)?);
        }
        self.ask_peers(&interfaces, &mut looked, now);
        self.book.enter(wanted, &interfaces, looked, now);
        Ok((interfaces, host.into_iter().map(|(_, a)| a).collect()))
    }

    /// For what was not found from this side.
    fn ask_peers(
        &mut self,
        interfaces: &BTreeMap<InterfaceIndex, Interface>,
        looked: &mut BTreeMap<IpAddr, Result<InterfaceIndex, Missing>>,
        now: Instant,
    ) {
        let asked_lately = self
            .peers_at
            .is_some_and(|at| now.saturating_duration_since(at) < PEERS_PAUSE);
        let known = self.book.addresses_found();
        let is_lost = |address: &IpAddr, result: &Result<_, Missing>| {
            !known.contains_key(address)
                && matches!(result, Err(why) if *why != Missing::OwnAddress)
        };
        if asked_lately || !looked.iter().any(|(a, r)| is_lost(a, r)) {
            return;
        }
        self.peers_at = Some(now);
        let peers = peer::addresses(&mut self.namespaces, interfaces);
        for (address, result) in looked.iter_mut() {
            if is_lost(address, result)
                && let Some(index) = peers.get(address)
            {
                *result = Ok(*index);
            }
        }
    }

    /// New interfaces at once; the others now and then, in case somebody took the programs off.
    ///
    /// The kernel waits for all its readers with each new program, tens of milliseconds on a busy machine: a pod is `ready` as soon
    /// as its own interface is, not when all are.
    fn attach(
        &mut self,
        interfaces: &BTreeMap<InterfaceIndex, Interface>,
        notice: Notice,
        ready: impl Fn(&Self),
    ) {
        self.errors
            .retain(|index, _| interfaces.contains_key(index));
        for index in self.book.interfaces() {
            if notice != Notice::All
                && self.attached.contains(&index)
                && !self.errors.contains_key(&index)
            {
                continue;
            }
            match self.programs.attach(index) {
                Ok(()) => {
                    self.inherited.remove(&index);
                    self.errors.remove(&index);
                    if self.attached.insert(index) {
                        ready(self);
                    }
                }
                Err(e) => {
                    self.inherited.insert(index);
                    let name = interfaces.get(&index).map_or("?", |i| i.name.as_str());
                    if self.errors.insert(index, e.to_string()).is_none() {
                        tracing::error!("programs cannot be attached to {name}: {e}");
                    }
                }
            }
        }
    }

    fn detach(&mut self, wanted: &WantedPods, interfaces: &BTreeMap<InterfaceIndex, Interface>) {
        let keep = self.book.interfaces();
        // After a restart an interface is not known to be somebody's until all have been found.
        let may_detach = wanted.complete && self.settled;
        let gone: Vec<InterfaceIndex> = self
            .attached
            .union(&self.inherited)
            .filter(|index| {
                !interfaces.contains_key(index) || (may_detach && !keep.contains(index))
            })
            .copied()
            .collect();
        for index in gone {
            match self.programs.detach(index) {
                Ok(()) => {
                    self.attached.remove(&index);
                    self.inherited.remove(&index);
                }
                Err(e) => tracing::warn!("programs stay on interface {}: {e}", index.get()),
            }
        }
    }

    fn settle(&mut self, wanted: &WantedPods, now: Instant) {
        if self.settled || !wanted.complete {
            return;
        }
        let since = *self.complete_since.get_or_insert(now);
        self.settled = self.book.is_complete() || now.saturating_duration_since(since) >= SETTLE;
    }

    fn publish(&self, wanted: &WantedPods, host: &BTreeSet<IpAddr>, outlets: &Outlets) {
        let mut pods = self.book.pods(wanted);
        pods.retain(|_, index| self.attached.contains(index));
        let current = LocalInterfaces {
            pods,
            host: host.clone(),
            settled: self.settled,
        };
        outlets.interfaces.send_if_modified(|known| {
            let changed = *known != current;
            *known = current;
            changed
        });
    }

    fn report(
        &self,
        wanted: &WantedPods,
        interfaces: &BTreeMap<InterfaceIndex, Interface>,
    ) -> Report {
        let mut attachments: BTreeMap<InterfaceIndex, PodAttachment> = BTreeMap::new();
        for (address, index) in self.book.addresses_found() {
            let attachment = attachments.entry(*index).or_insert_with(|| PodAttachment {
                workloads: Vec::new(),
                addresses: Vec::new(),
                interface: interfaces
                    .get(index)
                    .map_or_else(String::new, |i| i.name.clone()),
                index: *index,
                hook: self.programs.hook(),
                error: self.errors.get(index).cloned(),
            });
            attachment.addresses.push(*address);
            if let Some(name) = wanted.addresses.get(address)
                && !attachment.workloads.contains(name)
            {
                attachment.workloads.push(name.clone());
            }
        }
        for attachment in attachments.values_mut() {
            if attachment.workloads.len() > 1 {
                let shared = "several pods share it: nothing passes".to_owned();
                attachment.error.get_or_insert(shared);
            }
        }
        let missing = self.book.missing().iter();
        Report {
            attachments: attachments.into_values().collect(),
            missing: missing
                .map(|(address, absence)| MissingPod {
                    workload: wanted.addresses.get(address).cloned().unwrap_or_default(),
                    address: *address,
                    why: absence.why.to_string(),
                    since: absence.since,
                })
                .collect(),
            failure: None,
        }
    }
}
