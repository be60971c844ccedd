//! What a delta stream wants of one type, what it has, and what is left to send.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tonic::Status;

use super::store::{Entry, Table, Version};

/// More names than any cluster has; each costs memory here.
pub(super) const MAX_NAMES: usize = 500_000;

/// What the client has of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// This version, or one that is not ours to know.
    Version(Option<Version>),
    /// It was told that there is none.
    Nothing,
}

/// A response in the making.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) resources: Vec<(Arc<str>, Entry)>,
    pub(super) removed: Vec<Arc<str>>,
}

/// State of one type on one stream.
#[derive(Debug)]
pub(super) struct Subscription {
    /// Whose stream it is.
    node: Arc<str>,
    wildcard: bool,
    names: HashSet<Arc<str>>,
    held: HashMap<Arc<str>, Held>,
    upserts: BTreeSet<Arc<str>>,
    removals: BTreeSet<Arc<str>>,
    /// The snapshot's time up to which changes are noted.
    seen: u64,
    /// The first request is answered even if there is nothing to tell: the client waits for it.
    owes_answer: bool,
}

impl Subscription {
    /// From the first request of the type: what to send is all that it asks for and does not have in this version.
    pub(super) fn new(
        node: Arc<str>,
        subscribe: &[String],
        initial_versions: HashMap<String, String>,
        table: &Table,
        now: u64,
    ) -> Result<Self, Status> {
        let mut new = Self {
            // Who names nothing at first wants everything (the older of two ways to say so).
            wildcard: subscribe.is_empty(),
            seen: now,
            owes_answer: true,
            node,
            names: HashSet::new(),
            held: HashMap::new(),
            upserts: BTreeSet::new(),
            removals: BTreeSet::new(),
        };
        check_count(initial_versions.len())?;
        for (name, version) in initial_versions {
            let (name, version) = match table.get_for(&new.node, &name) {
                Some((name, entry)) => (
                    Arc::clone(name),
                    (entry.version.to_string() == version).then_some(entry.version),
                ),
                None => (name.into(), None),
            };
            new.held.insert(name, Held::Version(version));
        }
        new.add_names(subscribe, false)?;
        new.compare(table);
        Ok(new)
    }

    /// From a later request. Names asked for again are sent again: the client may have forgotten them.
    pub(super) fn change(
        &mut self,
        subscribe: &[String],
        unsubscribe: &[String],
        table: &Table,
    ) -> Result<(), Status> {
        for name in unsubscribe {
            self.unsubscribe(name, table);
        }
        let wildcard_before = self.wildcard;
        self.add_names(subscribe, true)?;
        if self.wildcard && !wildcard_before {
            self.compare(table);
            self.owes_answer = true;
        }
        for name in subscribe.iter().filter(|n| *n != "*") {
            if let Some(name) = self.names.get(name.as_str()).cloned() {
                self.consider(name, table);
            }
        }
        Ok(())
    }

    fn add_names(&mut self, names: &[String], forget: bool) -> Result<(), Status> {
        for name in names {
            if name == "*" {
                self.wildcard = true;
                continue;
            }
            if forget {
                self.held.remove(name.as_str());
            }
            if !self.names.contains(name.as_str()) {
                check_count(self.names.len() + 1)?;
                self.names.insert(Arc::from(name.as_str()));
            }
        }
        Ok(())
    }

    fn unsubscribe(&mut self, name: &str, table: &Table) {
        if name == "*" {
            self.wildcard = false;
            let names = &self.names;
            self.held.retain(|name, _| names.contains(name));
            self.upserts.retain(|name| names.contains(name));
            self.removals.retain(|name| names.contains(name));
            return;
        }
        let Some(name) = self.names.take(name) else {
            return;
        };
        self.held.remove(&name);
        if self.wildcard {
            // The wildcard still covers it: the protocol asks to say so, with the resource or with its removal.
            if table.get_for(&self.node, &name).is_none() {
                self.held.insert(Arc::clone(&name), Held::Version(None));
            }
            self.consider(name, table);
        } else {
            self.upserts.remove(&name);
            self.removals.remove(&name);
        }
    }

    fn wants(&self, name: &str, table: &Table) -> bool {
        let is_for_all = || table.get(name).is_none_or(|(_, entry)| !entry.by_name);
        self.names.contains(name) || self.wildcard && is_for_all()
    }

    /// Notes what the snapshot's changes leave to be sent.
    pub(super) fn catch_up(&mut self, table: &Table, now: u64) {
        if self.seen == now {
            return;
        }
        match table.since(self.seen) {
            Some(changed) => {
                for name in changed {
                    if self.wants(name, table) {
                        self.consider(Arc::clone(name), table);
                    }
                }
            }
            None => self.compare(table),
        }
        self.seen = now;
    }

    /// Compares everything it wants with everything it has.
    fn compare(&mut self, table: &Table) {
        let mut all: Vec<Arc<str>> = self.held.keys().cloned().collect();
        if self.wildcard {
            let there = table.iter_for(&self.node);
            all.extend(there.map(|(name, _)| Arc::clone(name)));
        }
        all.extend(self.names.iter().cloned());
        for name in all {
            self.consider(name, table);
        }
    }

    fn consider(&mut self, name: Arc<str>, table: &Table) {
        let held = self.held.get(&name).copied();
        match table.get_for(&self.node, &name) {
            Some((name, entry)) => {
                self.removals.remove(name);
                if self.wants(name, table) && held != Some(Held::Version(Some(entry.version))) {
                    self.upserts.insert(Arc::clone(name));
                } else {
                    self.upserts.remove(name);
                }
            }
            None => {
                self.upserts.remove(&name);
                let told = match held {
                    Some(Held::Nothing) => true,
                    Some(Held::Version(_)) => false,
                    // A name asked for which is not there is answered; a name nobody asked for is not.
                    None => !self.names.contains(&name),
                };
                if !told {
                    self.removals.insert(name);
                }
            }
        }
    }

    pub(super) const fn owes_answer(&self) -> bool {
        self.owes_answer
    }

    pub(super) fn owes_upserts(&self) -> bool {
        self.owes_answer || !self.upserts.is_empty()
    }

    pub(super) fn owes_removals(&self) -> bool {
        !self.removals.is_empty()
    }

    /// Takes resources off the list until they have `max_bytes`; at least one, if there is any.
    pub(super) fn take_upserts(&mut self, table: &Table, max_bytes: usize) -> Chunk {
        let mut chunk = Chunk::default();
        let mut bytes = 0;
        while let Some(name) = self.upserts.first().cloned() {
            let Some((name, entry)) = table.get_for(&self.node, &name) else {
                // It went since it was noted.
                self.consider(name, table);
                continue;
            };
            bytes += name.len() + entry.any.value.len() + entry.any.type_url.len();
            if bytes > max_bytes && !chunk.resources.is_empty() {
                break;
            }
            self.upserts.remove(name);
            let held = Held::Version(Some(entry.version));
            self.held.insert(Arc::clone(name), held);
            chunk.resources.push((Arc::clone(name), entry.clone()));
        }
        self.owes_answer = false;
        chunk
    }

    /// Takes names off the list of removals.
    pub(super) fn take_removals(&mut self, max_bytes: usize) -> Chunk {
        let mut chunk = Chunk::default();
        let mut bytes = 0;
        while bytes < max_bytes {
            let Some(name) = self.removals.pop_first() else {
                break;
            };
            bytes += name.len();
            if self.names.contains(&name) {
                self.held.insert(Arc::clone(&name), Held::Nothing);
            } else {
                self.held.remove(&name);
            }
            chunk.removed.push(name);
        }
        chunk
    }
}

fn check_count(names: usize) -> Result<(), Status> {
    if names > MAX_NAMES {
        return Err(Status::invalid_argument(format!(
            "more than {MAX_NAMES} resource names in one subscription: subscribe to \"*\" instead"
        )));
    }
    Ok(())
}
