//! Source events in, published resources out.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::mpsc;
use weft_proto::model::{Problem, Resource};
use weft_proto::resource::ResourceType;

use crate::ads::{Batch, Store};
use crate::model::Model;
use crate::object::ObjectName;
use crate::source::{Event, Events};
use crate::translate::{self, ServiceResources};

/// Groups of events taken together at most, so that a storm does not put off what came before it.
const MAX_BATCH: usize = 10_000;

/// What said a problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Reporter {
    /// A file.
    Origin(String),
    /// The translation of a service.
    Service(ObjectName),
}

/// Keeps the store in step with the source.
#[derive(Debug)]
pub(crate) struct Engine {
    model: Model,
    store: Arc<Store>,
    trust_domain: String,
    /// Names of what was published for each service.
    services: HashMap<ObjectName, BTreeSet<(ResourceType, String)>>,
    problems: HashMap<Reporter, Vec<Problem>>,
    /// How many reporters say the same.
    said: HashMap<String, usize>,
    synced: bool,
}

impl Engine {
    pub(crate) fn new(store: Arc<Store>, trust_domain: String) -> Self {
        Self {
            model: Model::default(),
            store,
            trust_domain,
            services: HashMap::new(),
            problems: HashMap::new(),
            said: HashMap::new(),
            synced: false,
        }
    }

    /// Takes events until the source is gone. Blocks: runs on a thread of its own.
    pub(crate) fn run(mut self, mut events: mpsc::Receiver<Events>) {
        while let Some(first) = events.blocking_recv() {
            let mut batch = Batch::default();
            let mut first_sync = self.take_all(first, &mut batch);
            for _ in 1..MAX_BATCH {
                let Ok(more) = events.try_recv() else { break };
                first_sync |= self.take_all(more, &mut batch);
            }
            // Until then there is no hurry, and half a cluster would be computed over and over.
            if self.synced {
                self.translate(&mut batch);
            }
            self.store.publish(batch);
            if first_sync {
                tracing::info!("all manifests are read");
                self.store.set_synced();
            }
        }
    }

    fn take_all(&mut self, events: Events, batch: &mut Batch) -> bool {
        events
            .into_iter()
            .fold(false, |sync, event| sync | self.take(event, batch))
    }

    /// Whether this was the end of the first sync.
    fn take(&mut self, event: Event, batch: &mut Batch) -> bool {
        match event {
            Event::Applied(object) => self.model.apply(object),
            Event::Deleted(reference) => self.model.delete(&reference),
            Event::Problems(origin, problems) => {
                self.report(Reporter::Origin(origin), problems, batch);
            }
            Event::Synced => {
                self.synced = true;
                return true;
            }
        }
        false
    }

    fn translate(&mut self, batch: &mut Batch) {
        let dirty = self.model.take_dirty();
        for name in dirty.services {
            let resources = translate::service(&self.model, &name);
            self.publish_service(name, resources, batch);
        }
        for name in &dirty.endpoints {
            for endpoints in translate::service_endpoints(&self.model, name) {
                batch.upsert(Resource::Endpoints(endpoints));
            }
        }
        for name in &dirty.pods {
            match translate::pod(&self.model, name, &self.trust_domain) {
                Some(workload) => batch.upsert(Resource::Workload(workload)),
                None => batch.remove(ResourceType::Workload, translate::pod_resource_name(name)),
            }
        }
        for name in &dirty.nodes {
            match translate::node(&self.model, name) {
                Some(workload) => batch.upsert(Resource::Workload(workload)),
                None => batch.remove(ResourceType::Workload, translate::node_resource_name(name)),
            }
        }
    }

    fn publish_service(
        &mut self,
        name: ObjectName,
        resources: ServiceResources,
        batch: &mut Batch,
    ) {
        let ServiceResources {
            listeners,
            clusters,
            endpoints,
            problems,
        } = resources;
        self.report(Reporter::Service(name.clone()), problems, batch);
        let mut names = BTreeSet::new();
        let all = (clusters.into_iter().map(Resource::Cluster))
            .chain(endpoints.into_iter().map(Resource::Endpoints))
            .chain(listeners.into_iter().map(Resource::Listener));
        for resource in all {
            names.insert((resource.resource_type(), resource.name()));
            batch.upsert(resource);
        }
        let before = if names.is_empty() {
            self.services.remove(&name)
        } else {
            self.services.insert(name, names.clone())
        };
        for (resource_type, gone) in before.iter().flatten().filter(|n| !names.contains(n)) {
            batch.remove(*resource_type, gone.clone());
        }
    }

    /// Replaces what a reporter said before; logs what is new.
    fn report(&mut self, reporter: Reporter, problems: Vec<Problem>, batch: &mut Batch) {
        let before = if problems.is_empty() {
            self.problems.remove(&reporter)
        } else {
            self.problems.insert(reporter, problems.clone())
        };
        for problem in problems {
            let count = self.said.entry(problem.name()).or_default();
            *count += 1;
            // Counted before the old ones are taken off, so that what stays is not logged again.
            if *count == 1 {
                tracing::warn!(severity = ?problem.severity, "{problem}");
                batch.upsert(Resource::Problem(problem));
            }
        }
        for problem in before.into_iter().flatten() {
            let name = problem.name();
            if let Some(count) = self.said.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    self.said.remove(&name);
                    batch.remove(ResourceType::Problem, name);
                }
            }
        }
    }
}
