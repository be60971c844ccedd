//! Kubernetes Events: `kubectl describe` shows them below the object.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, ObjectMeta, PostParams};
use kube::core::ApiResource;
use weft_proto::model::{Problem, Severity};
use xxhash_rust::xxh3::xxh3_64;

use super::CONTROLLER;
use super::board::Verdict;
use crate::object::ObjectRef;
use crate::source::kubernetes::resource;

/// Of one object at most: the worst come first.
const MAX_PER_OBJECT: usize = 8;
/// Characters of a note, by the API's rules.
const MAX_NOTE: usize = 1000;
/// Where Events of objects without a namespace are.
const CLUSTER_WIDE: &str = "default";

/// Tells each error once for as long as it lasts.
pub(super) struct Events {
    client: Client,
    /// Names of the Events of what is wrong now, by object.
    told: HashMap<ObjectRef, HashSet<String>>,
}

impl Events {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            told: HashMap::new(),
        }
    }

    /// Tells what is wrong with an object and was not told yet.
    pub(super) async fn tell(&mut self, verdict: &Verdict) -> kube::Result<()> {
        let reference = &verdict.reference;
        let errors: Vec<&Problem> = verdict
            .problems
            .iter()
            .filter(|p| p.severity == Severity::Error)
            .take(MAX_PER_OBJECT)
            .collect();
        let told = self.told.remove(reference).unwrap_or_default();
        if errors.is_empty() {
            return Ok(());
        }
        let api_version = verdict.subject.as_ref().map(|s| s.api_version.as_str());
        let Some(regarding) = self.regarding(reference, api_version).await? else {
            return Ok(());
        };
        let mut now_told = HashSet::new();
        for problem in errors {
            let event = event(&regarding, problem);
            let name = event.metadata.name.clone().unwrap_or_default();
            if !told.contains(&name) {
                self.create(&event).await?;
            }
            now_told.insert(name);
        }
        self.told.insert(reference.clone(), now_told);
        Ok(())
    }

    async fn create(&self, event: &Event) -> kube::Result<()> {
        let namespace = event.metadata.namespace.as_deref();
        let api: Api<Event> =
            Api::namespaced(self.client.clone(), namespace.unwrap_or(CLUSTER_WIDE));
        match api.create(&PostParams::default(), event).await {
            // Told before, by this process or by another; or the namespace is going.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            result => result.map(drop),
        }
    }

    /// What an Event says of its object; `None` when that is gone.
    async fn regarding(
        &self,
        reference: &ObjectRef,
        api_version: Option<&str>,
    ) -> kube::Result<Option<ObjectReference>> {
        let first = reference.kind.api_versions().first().copied();
        let resource: ApiResource =
            resource(api_version.or(first).unwrap_or_default(), reference.kind);
        let client = self.client.clone();
        let namespace = &reference.name.namespace;
        let api: Api<DynamicObject> = if reference.kind.is_namespaced() {
            Api::namespaced_with(client, namespace, &resource)
        } else {
            Api::all_with(client, &resource)
        };
        let Some(found) = api.get_metadata_opt(&reference.name.name).await? else {
            return Ok(None);
        };
        Ok(Some(ObjectReference {
            api_version: Some(resource.api_version),
            kind: Some(resource.kind),
            name: Some(reference.name.name.to_string()),
            namespace: (!namespace.is_empty()).then(|| namespace.to_string()),
            uid: found.metadata.uid,
            resource_version: found.metadata.resource_version,
            ..ObjectReference::default()
        }))
    }
}

/// The same problem of the same object always makes an Event of the same name: so it is told once, whoever tells it.
fn event(regarding: &ObjectReference, problem: &Problem) -> Event {
    let name = regarding.name.as_deref().unwrap_or_default();
    let uid = regarding.uid.as_deref().unwrap_or_default();
    let hash = xxh3_64(format!("{uid}#{}", problem.name()).as_bytes());
    let note = match problem.field.as_str() {
        "" => problem.message.clone(),
        field => format!("{field}: {}", problem.message),
    };
    let instance = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name:.200}.{hash:016x}")),
            namespace: Some(
                regarding
                    .namespace
                    .clone()
                    .unwrap_or_else(|| CLUSTER_WIDE.to_owned()),
            ),
            ..ObjectMeta::default()
        },
        action: Some("Read".to_owned()),
        event_time: Some(MicroTime(Timestamp::now())),
        note: Some(note.chars().take(MAX_NOTE).collect()),
        reason: Some("NotInEffect".to_owned()),
        regarding: Some(regarding.clone()),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(format!("weft-{:.100}", instance.trim())),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    }
}
