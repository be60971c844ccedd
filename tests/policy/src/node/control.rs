//! Manifests in, resources out, by the control plane's own code and over the wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use weft_control::ads::{Store, Version};
use weft_control::read::Reading;
use weft_control::source::Event;
use weft_control::{Engine, Settings};
use weft_proto::convert;
use weft_proto::model::Resource;
use weft_proto::resource::ResourceType;

use crate::object::{Cluster, Document};

const TYPES: [ResourceType; 2] = [ResourceType::Policy, ResourceType::Workload];

/// What an agent is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new, or now this.
    Set(Box<Resource>),
    /// It is gone.
    Removed(ResourceType, String),
}

/// A control plane.
#[derive(Debug)]
pub struct Control {
    engine: Engine,
    store: Arc<Store>,
    /// The objects that it knows.
    documents: Vec<Document>,
    /// What was told of each resource.
    told: BTreeMap<(ResourceType, Arc<str>), Version>,
}

impl Default for Control {
    fn default() -> Self {
        let store = Arc::new(Store::default());
        let mut engine = Engine::new(Arc::clone(&store), Settings::default());
        engine.publish(vec![Event::Synced]);
        Self {
            engine,
            store,
            documents: Vec::new(),
            told: BTreeMap::new(),
        }
    }
}

impl Control {
    /// Makes the objects what they are now; what becomes of the resources.
    ///
    /// # Errors
    /// When an object is not read at all, or a resource does not survive the wire.
    pub fn apply(&mut self, cluster: &Cluster) -> Result<Vec<Change>> {
        let documents = cluster.documents();
        let mut events = Vec::new();
        for gone in &self.documents {
            if !documents.iter().any(|d| d.is_named_as(gone)) {
                let reading = read(gone)?;
                let references = reading.items.into_iter().map(|item| item.reference);
                events.extend(references.map(Event::Deleted));
                events.push(Event::Problems(origin(gone), Vec::new()));
            }
        }
        for document in documents.iter().filter(|d| !self.documents.contains(d)) {
            let reading = read(document)?;
            let Some(object) = reading.items.into_iter().find_map(|item| item.object) else {
                bail!("{:?} is not read: {:?}", document.name(), reading.problems);
            };
            events.push(Event::Problems(origin(document), reading.problems));
            events.push(Event::Applied(object));
        }
        self.documents = documents;
        self.engine.publish(events);
        self.changes()
    }

    /// All that it says is wrong.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.store.read(|snapshot| {
            let table = snapshot.table(ResourceType::Problem);
            table.iter().map(|(name, _)| name.to_string()).collect()
        })
    }

    fn changes(&mut self) -> Result<Vec<Change>> {
        let told = &self.told;
        let mut now = BTreeMap::new();
        let mut changes = Vec::new();
        self.store.read(|snapshot| -> Result<()> {
            for resource_type in TYPES {
                for (name, entry) in snapshot.table(resource_type).iter() {
                    let key = (resource_type, Arc::clone(name));
                    if told.get(&key) != Some(&entry.version) {
                        let resource = convert::decode(resource_type, &entry.any())
                            .with_context(|| format!("decoding {resource_type} {name}"))?;
                        changes.push(Change::Set(Box::new(resource)));
                    }
                    now.insert(key, entry.version);
                }
            }
            Ok(())
        })?;
        let gone = self.told.keys().filter(|key| !now.contains_key(*key));
        changes.extend(gone.map(|(kind, name)| Change::Removed(*kind, name.to_string())));
        self.told = now;
        Ok(changes)
    }
}

/// A file for each object.
fn origin(document: &Document) -> String {
    let (kind, namespace, name) = document.name();
    format!("{kind} {namespace}/{name}")
}

fn read(document: &Document) -> Result<Reading> {
    let mut reading = Reading::default();
    reading.add(serde_json::to_value(document)?, &"test".into());
    Ok(reading)
}
