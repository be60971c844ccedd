//! The snapshot that all streams share.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;
use weft_proto::envoy::google::protobuf::Any;
use weft_proto::model::Resource;
use weft_proto::resource::ResourceType;
use xxhash_rust::xxh3::Xxh3;

use super::Batch;
use super::content::Content;
use super::node::Client;

/// Removed names that are remembered so that streams find them by their cursor; past this, the older half is forgotten.
const MAX_TOMBSTONES: usize = 1 << 16;

/// A resource's version: a hash of its content, equal on every replica and after every restart of the same release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(u64);

impl Version {
    /// The version of a resource's content.
    #[must_use]
    pub fn of<T: Hash>(content: &T) -> Self {
        // Another release may put the same content on the wire in another way.
        Self::salted(env!("CARGO_PKG_VERSION"), content)
    }

    fn salted<T: Hash>(salt: &str, content: &T) -> Self {
        let mut hasher = Xxh3::new();
        hasher.write(salt.as_bytes());
        content.hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One resource.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Version of its content.
    pub version: Version,
    content: Content,
    /// Whether only those get it who ask for its name.
    pub by_name: bool,
    /// The only node that it is for; `None`: whoever asks.
    node: Option<Arc<str>>,
    /// Whether it means nothing to Envoys.
    is_for_kernel: bool,
    /// When it last changed, on the store's own clock.
    changed: u64,
    /// Number of its name in this table.
    id: Id,
}

/// Stands for a name of a table, so that streams can hold sets of names in a bit each. Small, and given again once the name is
/// forgotten: who has seen less than [`Table::since`] knows must let go of all that it holds.
pub(super) type Id = usize;

/// A name that was removed.
#[derive(Debug)]
struct Tombstone {
    time: u64,
    id: Id,
}

/// All resources of one type.
#[derive(Debug, Default)]
pub struct Table {
    entries: HashMap<Arc<str>, Entry>,
    /// Names by the time of their last change: one entry for each name that is there, and for each tombstone.
    log: BTreeMap<u64, Arc<str>>,
    tombstones: HashMap<Arc<str>, Tombstone>,
    /// Who has seen less than this cannot be told what was removed since.
    floor: u64,
    /// Names by id.
    names: Vec<Option<Arc<str>>>,
    /// Ids that stand for nothing.
    free: Vec<Id>,
}

impl Entry {
    /// As it travels.
    #[must_use]
    pub fn any(&self) -> Any {
        self.content.any()
    }

    /// Stands for its name within its table.
    pub(super) const fn id(&self) -> Id {
        self.id
    }

    /// Whether a stream of this client may see it.
    fn is_for(&self, client: &Client) -> bool {
        let node = self.node.as_deref();
        node.is_none_or(|own| own == client.node()) && !(self.is_for_kernel && client.is_envoy)
    }
}

impl Table {
    /// The resource of this name, if it is for this client.
    pub(super) fn get_for(&self, client: &Client, name: &str) -> Option<(&Arc<str>, &Entry)> {
        self.get(name).filter(|(_, entry)| entry.is_for(client))
    }

    /// What this client gets if it asks for everything, in no order.
    pub(super) fn iter_for(&self, client: &Client) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        self.for_all().filter(move |(_, e)| e.is_for(client))
    }

    /// The resource of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<(&Arc<str>, &Entry)> {
        self.entries.get_key_value(name)
    }

    /// The name that an id stands for, whether its resource is there or was removed.
    pub(super) fn name(&self, id: Id) -> Option<&Arc<str>> {
        self.names.get(id)?.as_ref()
    }

    /// What stands for this name, whether its resource is there or was removed.
    pub(super) fn id(&self, name: &str) -> Option<Id> {
        let there = self.entries.get(name).map(|entry| entry.id);
        there.or_else(|| Some(self.tombstones.get(name)?.id))
    }

    /// What is sent without being asked for by name, in no order.
    pub fn for_all(&self) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        self.entries.iter().filter(|(_, entry)| !entry.by_name)
    }

    /// All resources, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        self.entries.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names that were changed or removed after `time`; `None` when that is too long ago to know.
    #[must_use]
    pub fn since(&self, time: u64) -> Option<impl Iterator<Item = &Arc<str>>> {
        (time >= self.floor).then(|| self.log.range(time + 1..).map(|(_, name)| name))
    }

    fn upsert(&mut self, name: Arc<str>, mut entry: Entry) {
        let there = self.entries.get_key_value(&name);
        let there = there.map(|(name, old)| (Arc::clone(name), old.changed, old.id));
        let known = there.or_else(|| {
            let (name, buried) = self.tombstones.remove_entry(&name)?;
            Some((name, buried.time, buried.id))
        });
        let name = match known {
            Some((name, before, id)) => {
                self.log.remove(&before);
                entry.id = id;
                name
            }
            None => {
                entry.id = self.new_id(&name);
                name
            }
        };
        self.log.insert(entry.changed, Arc::clone(&name));
        self.entries.insert(name, entry);
    }

    fn new_id(&mut self, name: &Arc<str>) -> Id {
        let id = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            self.names.len() - 1
        });
        if let Some(place) = self.names.get_mut(id) {
            *place = Some(Arc::clone(name));
        }
        id
    }

    fn remove(&mut self, name: &str, time: u64) {
        let Some((name, old)) = self.entries.remove_entry(name) else {
            return;
        };
        self.log.remove(&old.changed);
        if self.tombstones.len() >= MAX_TOMBSTONES {
            self.forget_oldest();
        }
        self.log.insert(time, Arc::clone(&name));
        let id = old.id;
        self.tombstones.insert(name, Tombstone { time, id });
    }

    fn forget_oldest(&mut self) {
        let removed = |name: &&Arc<str>| self.tombstones.contains_key(*name);
        let oldest: Vec<Arc<str>> = (self.log.values())
            .filter(removed)
            .take(MAX_TOMBSTONES / 2)
            .cloned()
            .collect();
        for name in oldest {
            if let Some(Tombstone { time, id }) = self.tombstones.remove(&name) {
                self.log.remove(&time);
                self.floor = time;
                self.free.push(id);
                if let Some(place) = self.names.get_mut(id) {
                    *place = None;
                }
            }
        }
    }
}

/// Tables of all types at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    tables: [Table; ResourceType::ALL.len()],
    time: u64,
}

impl Snapshot {
    /// The resources of a type.
    #[must_use]
    pub fn table(&self, resource_type: ResourceType) -> &Table {
        &self.tables[index(resource_type)]
    }

    /// Goes up with every change.
    #[must_use]
    pub const fn time(&self) -> u64 {
        self.time
    }
}

const fn index(resource_type: ResourceType) -> usize {
    match resource_type {
        ResourceType::Cluster => 0,
        ResourceType::Endpoints => 1,
        ResourceType::Listener => 2,
        ResourceType::Route => 3,
        ResourceType::Policy => 4,
        ResourceType::Workload => 5,
        ResourceType::Problem => 6,
    }
}

/// A resource that differs from the snapshot's; `None`: it is gone.
struct Change {
    resource_type: ResourceType,
    name: Arc<str>,
    content: Option<Entry>,
}

/// Holds the snapshot and tells of its changes.
#[derive(Debug)]
pub struct Store {
    snapshot: RwLock<Snapshot>,
    /// Time of the last change; `None` until the source has told everything once.
    published: watch::Sender<Option<u64>>,
}

/// Sees every change of a [`Store`]; open as long as a stream is.
pub(super) type Publications = watch::Receiver<Option<u64>>;

impl Default for Store {
    fn default() -> Self {
        Self {
            snapshot: RwLock::default(),
            published: watch::Sender::new(None),
        }
    }
}

impl Store {
    /// Applies a batch as one change and tells all streams. Resources of unchanged content stay as they are.
    ///
    /// For one writer only: hashing and encoding happen outside the lock that readers share.
    pub fn publish(&self, batch: Batch) {
        let changes = self.changes(batch);
        if changes.is_empty() {
            return;
        }
        let mut snapshot = self
            .snapshot
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let Snapshot { tables, time } = &mut *snapshot;
        for change in changes {
            *time += 1;
            let table = &mut tables[index(change.resource_type)];
            match change.content {
                Some(entry) => {
                    let changed = *time;
                    table.upsert(change.name, Entry { changed, ..entry });
                }
                None => table.remove(&change.name, *time),
            }
        }
        let now = *time;
        drop(snapshot);
        self.published.send_if_modified(|published| {
            let synced = published.is_some();
            if synced {
                *published = Some(now);
            }
            synced
        });
    }

    /// Lets streams answer from now on: before everything is known, an answer would tell agents to remove what is not.
    pub fn set_synced(&self) {
        let time = self.read(|s| s.time());
        self.published.send_replace(Some(time));
    }

    /// Whether streams are answered.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.published.borrow().is_some()
    }

    /// Returns once streams are answered.
    pub async fn synced(&self) {
        // An error means that the sender is gone, which `self` rules out.
        let _ = self.subscribe().wait_for(Option::is_some).await;
    }

    /// Becomes `Some` once streams may be answered, and changes with every change.
    #[must_use]
    pub(super) fn subscribe(&self) -> Publications {
        self.published.subscribe()
    }

    /// How many streams are open.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.published.receiver_count()
    }

    /// Looks at the snapshot. Writers wait meanwhile: be short.
    pub fn read<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> T {
        look(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn changes(&self, batch: Batch) -> Vec<Change> {
        let changed =
            |((resource_type, name), resource): ((ResourceType, String), Option<Resource>)| {
                let version = resource.as_ref().map(Version::of);
                let known = self.read(|s| Some(s.table(resource_type).get(&name)?.1.version));
                (known != version).then(|| Change {
                    resource_type,
                    name: name.into(),
                    content: version.zip(resource).map(|(version, r)| Entry {
                        version,
                        by_name: r.is_by_name(),
                        node: r.node().map(Arc::from),
                        is_for_kernel: r.is_for_kernel(),
                        content: Content::new(r),
                        changed: 0,
                        id: 0,
                    }),
                })
            };
        batch.0.into_iter().filter_map(changed).collect()
    }
}

#[cfg(test)]
mod tests;
