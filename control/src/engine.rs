//! Source events in, published resources out.

#[cfg(test)]
mod tests;
mod tunnels;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::mpsc;
use weft_proto::model::{Problem, Resource};
use weft_proto::resource::ResourceType;

use crate::ads::{Batch, Store};
use crate::ca::Residents;
use crate::feedback::{Board, Change};
use crate::inbound::Inbound;
use crate::model::Model;
use crate::object::{ObjectName, ObjectRef};
use crate::source::{Event, Events};
use crate::translate::{self, ServiceResources};
use tunnels::Tunnels;

/// Groups of events taken together at most, so that a storm does not put off what came before it.
const MAX_BATCH: usize = 10_000;
/// Resources that are taken into the store together at most before anybody is told of any.
const PIECE: usize = 1_000;

/// What said a problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Reporter {
    /// A file.
    Origin(String),
    /// The translation of a service.
    Service(ObjectName),
    /// A PeerAuthentication.
    PeerAuthentication(ObjectName),
}

/// Which nodes have an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nodes {
    /// All but those with the label `weft.io/mesh=disabled`.
    #[default]
    All,
    /// Those with the label `weft.io/mesh=enabled` alone.
    Labelled,
}

/// What the cluster's objects do not say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// SPIFFE trust domain of all workloads.
    pub trust_domain: String,
    /// Istio's root namespace: its policies are for the whole mesh.
    pub root_namespace: String,
    /// Nodes get the certificates that mTLS takes, of one CA.
    pub tunnels: bool,
    /// Which nodes have an agent.
    pub nodes: Nodes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            trust_domain: "cluster.local".to_owned(),
            root_namespace: "istio-system".to_owned(),
            tunnels: false,
            nodes: Nodes::All,
        }
    }
}

/// Keeps the store in step with the source.
#[derive(Debug)]
pub struct Engine {
    model: Model,
    store: Arc<Store>,
    /// What Envoys take of it.
    envoys: Arc<Store>,
    /// Clusters that they have.
    clusters: HashSet<String>,
    /// Whose certificates each node may have.
    residents: Arc<Residents>,
    settings: Settings,
    /// Where Envoys stand in for pods.
    inbound: Inbound,
    /// Names of what was published for each policy.
    access: HashMap<ObjectRef, BTreeSet<String>>,
    /// Names of what was published for each service.
    services: HashMap<ObjectName, BTreeSet<(ResourceType, String)>>,
    /// Where pods were when they were published last, and the tunnels of each node.
    tunnels: Tunnels,
    problems: HashMap<Reporter, Vec<Problem>>,
    /// How many reporters say the same.
    said: HashMap<String, usize>,
    /// Whom to tell what has become of objects, and what to tell.
    board: Option<(Arc<Board>, Vec<Change>)>,
    synced: bool,
}

impl Engine {
    /// Publishes into `store`.
    #[must_use]
    pub fn new(store: Arc<Store>, settings: Settings) -> Self {
        Self {
            model: Model::default(),
            store,
            envoys: Arc::default(),
            clusters: HashSet::new(),
            residents: Arc::default(),
            settings,
            inbound: Inbound::default(),
            access: HashMap::new(),
            services: HashMap::new(),
            tunnels: Tunnels::default(),
            problems: HashMap::new(),
            said: HashMap::new(),
            board: None,
            synced: false,
        }
    }

    /// Tells `board` what becomes of objects.
    #[must_use]
    pub(crate) fn telling(mut self, board: Arc<Board>) -> Self {
        self.board = Some((board, Vec::new()));
        self
    }

    fn note(&mut self, change: Change) {
        if let Some((_, changes)) = &mut self.board {
            changes.push(change);
        }
    }

    /// What the nodes' Envoys take of all that is published.
    #[must_use]
    pub fn envoys(&self) -> Arc<Store> {
        Arc::clone(&self.envoys)
    }

    /// Which service accounts have pods on which node.
    #[must_use]
    pub fn residents(&self) -> Arc<Residents> {
        Arc::clone(&self.residents)
    }

    fn publish_batch(&mut self, batch: Batch) {
        let mut tunnels = Batch::default();
        self.tunnels
            .publish(&self.model, &self.settings, &mut tunnels);
        self.publish_with(tunnels, batch);
    }

    /// `envoys`: what these take besides.
    fn publish_with(&mut self, mut envoys: Batch, mut batch: Batch) {
        envoys.extend(batch.for_envoys(&mut self.clusters));
        envoys.extend(self.inbound.take(&batch, &self.model, &self.settings));
        self.envoys.publish(envoys);
        self.store.publish(batch);
    }

    /// Puts away what there is so far, while nobody is told of any of it: a whole cluster's resources would take more than what the store
    /// makes of them.
    fn put_away(&mut self, batch: &mut Batch) {
        if batch.len() >= PIECE && !self.store.is_synced() {
            // A node's tunnels depend on all of its pods: they wait for the last piece.
            self.publish_with(Batch::default(), std::mem::take(batch));
        }
    }

    /// Takes events until the source is gone. Blocks: runs on a thread of its own.
    pub(crate) fn run(mut self, mut events: mpsc::Receiver<Events>) {
        while let Some(mut group) = events.blocking_recv() {
            for _ in 1..MAX_BATCH {
                let Ok(more) = events.try_recv() else { break };
                group.extend(more);
            }
            self.publish(group);
        }
    }

    /// Takes events and publishes what follows from them.
    pub fn publish(&mut self, events: Events) {
        let mut batch = Batch::default();
        let first_sync = self.take_all(events, &mut batch);
        // Until then there is no hurry, and half a cluster would be computed over and over.
        if self.synced {
            self.translate(&mut batch);
        }
        self.publish_batch(batch);
        // What is published is what statuses speak of. Before the first sync, everything would seem to be missing.
        if let Some((board, changes)) = self.board.as_mut().filter(|_| self.synced) {
            board.take(changes.drain(..));
        }
        if first_sync {
            tracing::info!("all manifests are read");
            self.store.set_synced();
            self.envoys.set_synced();
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
            Event::Subject(reference, subject) => {
                self.note(Change::Subject(reference, subject));
            }
            Event::Synced => {
                self.synced = true;
                return true;
            }
        }
        false
    }

    fn translate(&mut self, batch: &mut Batch) {
        let mut dirty = self.model.take_dirty();
        for name in std::mem::take(&mut dirty.mtls) {
            let is_of_mesh = *name.namespace == *self.settings.root_namespace;
            let namespace = Some(&*name.namespace).filter(|_| !is_of_mesh);
            let pods = self.model.pods().names(namespace).cloned();
            dirty.pods.extend(pods);
            let problems = translate::mtls_problems(&self.model, &name, &self.settings);
            self.report(Reporter::PeerAuthentication(name), problems, batch);
        }
        for name in dirty.services {
            let resources = translate::service(&self.model, &name);
            self.publish_service(name, resources, batch);
            self.put_away(batch);
        }
        for name in &dirty.endpoints {
            for endpoints in translate::service_endpoints(&self.model, name) {
                batch.upsert(Resource::Endpoints(endpoints));
            }
        }
        for reference in dirty.access {
            self.publish_access(reference, batch);
        }
        for name in &dirty.pods {
            self.tunnels.touch(name, self.model.pod(name));
            let workload = translate::pod(&self.model, name, &self.settings);
            let place = workload.as_ref().filter(|w| !w.out_of_mesh);
            let place = place.map(|w| (w.node.as_str(), w.service_account.as_str()));
            self.residents.set(name, place);
            match workload {
                Some(workload) => batch.upsert(Resource::Workload(workload)),
                None => batch.remove(ResourceType::Workload, translate::pod_resource_name(name)),
            }
            self.put_away(batch);
        }
        for name in &dirty.nodes {
            match translate::node(&self.model, name) {
                Some(workload) => batch.upsert(Resource::Workload(workload)),
                None => batch.remove(ResourceType::Workload, translate::node_resource_name(name)),
            }
        }
    }

    fn publish_access(&mut self, reference: ObjectRef, batch: &mut Batch) {
        let root = &self.settings.root_namespace;
        let mut names = BTreeSet::new();
        for policy in translate::access(&self.model, &reference, root) {
            names.insert(policy.name.clone());
            batch.upsert(Resource::Policy(policy));
        }
        let before = if names.is_empty() {
            self.access.remove(&reference)
        } else {
            self.access.insert(reference, names.clone())
        };
        for gone in before.iter().flatten().filter(|n| !names.contains(*n)) {
            batch.remove(ResourceType::Policy, gone.clone());
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
            routes,
            client_listeners,
            client_routes,
            problems,
        } = resources;
        self.report(Reporter::Service(name.clone()), problems, batch);
        let mut names = BTreeSet::new();
        let all = (clusters.into_iter().map(Resource::Cluster))
            .chain(endpoints.into_iter().map(Resource::Endpoints))
            .chain(listeners.into_iter().map(Resource::Listener))
            .chain(routes.into_iter().map(Resource::Routes))
            .chain(client_listeners.into_iter().map(Resource::ApiListener))
            .chain(client_routes.into_iter().map(Resource::ClientRoutes));
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
                self.note(Change::Said(problem.clone()));
                batch.upsert(Resource::Problem(problem));
            }
        }
        for problem in before.into_iter().flatten() {
            let name = problem.name();
            if let Some(count) = self.said.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    self.said.remove(&name);
                    self.note(Change::Unsaid(problem));
                    batch.remove(ResourceType::Problem, name);
                }
            }
        }
    }
}
