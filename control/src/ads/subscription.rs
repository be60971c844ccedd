//! What a delta stream wants of one type, what it has, and what is left to send.
//!
//! A thousand agents hold every name of a large cluster, so each stream has its names as sets of ids ([`super::ids`]). A version need
//! not be remembered: what the client holds is the current one, unless it is on the list of what is to be sent.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tonic::Status;
use weft_proto::envoy::envoy::service::discovery::v3::Resource;

use super::ids::Ids;
use super::node::Client;
use super::store::{Entry, Id, Table};

/// More names than any cluster has; each costs memory here.
pub(super) const MAX_NAMES: usize = 500_000;

/// A response in the making.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) resources: Vec<Resource>,
    /// Their names, as all streams share them.
    pub(super) names: Vec<Arc<str>>,
    pub(super) removed: Vec<Arc<str>>,
}

/// State of one type on one stream.
#[derive(Debug)]
pub(super) struct Subscription {
    /// Whose stream it is.
    client: Client,
    wildcard: bool,
    /// Names asked for, of resources that there are.
    asked: Ids,
    /// Names asked for of which there is nothing; the client was told so, or is to be (`removals`).
    nothing: BTreeSet<Arc<str>>,
    /// What the client has, in some version.
    held: Ids,
    /// What is to be sent.
    upserts: Ids,
    removals: BTreeSet<Arc<str>>,
    /// Of `removals`, what the client has; of the others it waits for an answer.
    removed: BTreeSet<Arc<str>>,
    /// The snapshot's time up to which changes are noted.
    seen: u64,
    /// The first request is answered even if there is nothing to tell: the client waits for it.
    owes_answer: bool,
}

impl Subscription {
    /// From the first request of the type: what to send is all that it asks for and does not have in this version.
    pub(super) fn new(
        client: Client,
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
            client,
            asked: Ids::default(),
            nothing: BTreeSet::new(),
            held: Ids::default(),
            upserts: Ids::default(),
            removals: BTreeSet::new(),
            removed: BTreeSet::new(),
        };
        check_count(initial_versions.len())?;
        let mut outdated = Vec::new();
        for (name, version) in initial_versions {
            match table.get_for(&new.client, &name) {
                Some((_, entry)) => {
                    new.held.insert(entry.id());
                    if entry.version.to_string() != version {
                        outdated.push(entry.id());
                    }
                }
                None => new.remove_held(Arc::from(name)),
            }
        }
        new.add_names(subscribe, false, table)?;
        new.send_missing(table);
        for id in outdated {
            let entry = table.name(id).and_then(|name| table.get(name));
            if entry.is_some_and(|(_, entry)| new.wants(entry)) {
                new.upserts.insert(id);
            }
        }
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
        self.add_names(subscribe, true, table)?;
        if self.wildcard && !wildcard_before {
            self.send_missing(table);
            self.owes_answer = true;
        }
        Ok(())
    }

    /// `again`: the client may have forgotten what it has of these names.
    fn add_names(&mut self, names: &[String], again: bool, table: &Table) -> Result<(), Status> {
        for name in names {
            if name == "*" {
                self.wildcard = true;
                continue;
            }
            if let Some((name, entry)) = table.get_for(&self.client, name) {
                let id = entry.id();
                self.asked.insert(id);
                self.forget_removal(name);
                if again || !self.held.contains(id) {
                    self.upserts.insert(id);
                }
            } else if again || !self.nothing.contains(name.as_str()) {
                let name: Arc<str> = Arc::from(name.as_str());
                self.nothing.insert(Arc::clone(&name));
                self.removals.insert(name);
            }
        }
        check_count(self.asked.len() + self.nothing.len())
    }

    fn unsubscribe(&mut self, name: &str, table: &Table) {
        if name == "*" {
            self.wildcard = false;
            self.held.retain(&self.asked);
            self.upserts.retain(&self.asked);
            let nothing = &self.nothing;
            self.removals.retain(|name| nothing.contains(name));
            self.removed.retain(|name| nothing.contains(name));
            return;
        }
        let found = table.get_for(&self.client, name);
        let was_asked = match found {
            Some((_, entry)) => self.asked.remove(entry.id()),
            None => self.nothing.remove(name),
        };
        if !was_asked {
            return;
        }
        match found {
            Some((_, entry)) => {
                self.held.remove(entry.id());
                // The wildcard still covers it: the protocol asks to say so, with the resource or with its removal.
                if self.wants(entry) {
                    self.upserts.insert(entry.id());
                } else {
                    self.upserts.remove(entry.id());
                }
            }
            None if self.wildcard => self.remove_held(Arc::from(name)),
            None => {
                self.removals.remove(name);
                self.removed.remove(name);
            }
        }
    }

    fn wants(&self, entry: &Entry) -> bool {
        self.asked.contains(entry.id()) || self.wildcard && !entry.by_name
    }

    /// Notes what the snapshot's changes leave to be sent.
    ///
    /// # Errors
    /// When it is too far behind to know what was removed.
    pub(super) fn catch_up(&mut self, table: &Table, now: u64) -> Result<(), Status> {
        if self.seen == now {
            return Ok(());
        }
        let changed = table.since(self.seen).ok_or_else(|| {
            Status::unavailable(
                "this stream is too far behind: open another, and say what you have",
            )
        })?;
        for name in changed {
            match table.get_for(&self.client, name) {
                Some((name, entry)) => self.is_there(name, entry),
                None => self.is_gone(name, table.id(name)),
            }
        }
        self.seen = now;
        Ok(())
    }

    /// A resource is new or another.
    fn is_there(&mut self, name: &Arc<str>, entry: &Entry) {
        let id = entry.id();
        if self.nothing.remove(name) {
            self.asked.insert(id);
        }
        if self.forget_removal(name) {
            self.held.insert(id);
        }
        if self.wants(entry) {
            self.upserts.insert(id);
        } else {
            self.upserts.remove(id);
        }
    }

    /// There is no such resource any more, or none for this node.
    fn is_gone(&mut self, name: &Arc<str>, id: Option<Id>) {
        let Some(id) = id else { return };
        self.upserts.remove(id);
        if self.asked.remove(id) {
            self.nothing.insert(Arc::clone(name));
            self.removals.insert(Arc::clone(name));
        }
        if self.held.remove(id) {
            self.remove_held(Arc::clone(name));
        }
    }

    fn remove_held(&mut self, name: Arc<str>) {
        self.removed.insert(Arc::clone(&name));
        self.removals.insert(name);
    }

    /// Whether the client still has it.
    fn forget_removal(&mut self, name: &str) -> bool {
        self.removals.remove(name);
        self.removed.remove(name)
    }

    /// Puts everything that a wildcard covers and the client does not have on the list.
    fn send_missing(&mut self, table: &Table) {
        if self.wildcard {
            for (_, entry) in table.iter_for(&self.client) {
                if !self.held.contains(entry.id()) {
                    self.upserts.insert(entry.id());
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
        let mut done = Vec::new();
        for id in self.upserts.iter() {
            let there = table.name(id).and_then(|n| table.get_for(&self.client, n));
            if let Some((name, entry)) = there {
                let any = entry.any();
                bytes += name.len() + any.value.len() + any.type_url.len();
                if bytes > max_bytes && !chunk.resources.is_empty() {
                    break;
                }
                self.held.insert(id);
                chunk.names.push(Arc::clone(name));
                chunk.resources.push(Resource {
                    name: name.to_string(),
                    version: entry.version.to_string(),
                    resource: Some(any),
                    ..Resource::default()
                });
            }
            done.push(id);
        }
        for id in done {
            self.upserts.remove(id);
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
            self.removed.remove(&name);
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
