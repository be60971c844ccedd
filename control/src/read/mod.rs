//! Manifests to objects: one document in, what it means and what is wrong with it out.
//!
//! The same code reads a folder's files and what an API server sends. Nothing here fails as a whole: what cannot be used is
//! named down to the field, and everything else is used.

mod access;
mod cidr;
mod duration;
mod endpoint_slice;
mod envelope;
mod fields;
mod findings;
mod kinds;
mod membership;
mod names;
mod node;
mod pod;
mod route;
mod service;
#[cfg(test)]
mod tests;
mod traffic_policy;

use std::sync::Arc;

pub(crate) use membership::MESH;

use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;
use weft_proto::model::{Problem, Severity};

use self::envelope::Envelope;
use self::findings::Findings;
use self::kinds::Meaning;
use crate::object::{Kind, Namespace, Object, ObjectRef, Spec};

/// An object that a document is about.
#[derive(Debug)]
pub struct Item {
    /// Its kind and name.
    pub reference: ObjectRef,
    /// What can be used of it; `None` when nothing can.
    pub object: Option<Object>,
    /// Whether Kubernetes would take it. When not, an earlier sound version is to be preferred.
    pub sound: bool,
}

/// What documents say.
#[derive(Debug, Default)]
pub struct Reading {
    /// Objects of kinds that Weft uses, in order.
    pub items: Vec<Item>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

impl Reading {
    /// Adds what the document `value`, found at `origin` ("shop.yaml:12"), says. Lists are unrolled.
    pub fn add(&mut self, value: Value, origin: &Arc<str>) {
        let envelope = match Envelope::open(&value) {
            Ok(Some(envelope)) => envelope,
            Ok(None) => return,
            Err(error) => {
                self.report(origin, error.object, error.field, error.message);
                return;
            }
        };
        let mut findings = Findings::default();
        match kinds::meaning(&envelope) {
            Meaning::Used(kind) => self.add_named(kind, value, origin, findings),
            Meaning::Other(kind, message) => {
                findings.invalid("apiVersion", message);
                self.add_named(kind, value, origin, findings);
            }
            Meaning::List => self.add_list(value, origin),
            Meaning::Problem(field, message, severity) => self.problems.push(Problem {
                origin: origin.to_string(),
                object: envelope.to_string(),
                field: field.to_owned(),
                message,
                severity,
            }),
        }
    }

    fn add_named(&mut self, kind: Kind, value: Value, origin: &Arc<str>, mut findings: Findings) {
        let Ok(Some(envelope)) = Envelope::open(&value) else {
            return;
        };
        let shown_name = envelope.to_string();
        let name = match envelope.object_name(kind) {
            Ok(name) => name,
            Err(error) => {
                // Who may talk to whom fails closed, whatever the object is called.
                let Some(name) = envelope.stand_in_name(kind, origin) else {
                    return self.report(origin, shown_name, error.field, error.message);
                };
                findings.invalid(error.field, error.message);
                name
            }
        };
        let reference = ObjectRef { kind, name };
        self.add_object(reference, shown_name, value, origin, findings);
    }

    fn report(&mut self, origin: &Arc<str>, object: String, field: String, message: String) {
        self.problems.push(Problem {
            origin: origin.to_string(),
            object,
            field,
            message,
            severity: Severity::Error,
        });
    }

    fn add_list(&mut self, mut value: Value, origin: &Arc<str>) {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
        // In a typed list ("ServiceList") the items may leave out what the list already says.
        let item_kind = kind.strip_suffix("List").unwrap_or_default().to_owned();
        let items = match value.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            None | Some(Value::Null) => return,
            Some(_) => {
                self.report(origin, kind, "items".to_owned(), "is not a list".to_owned());
                return;
            }
        };
        for mut item in items {
            if let (Value::Object(map), false) = (&mut item, item_kind.is_empty()) {
                map.entry("apiVersion")
                    .or_insert_with(|| Value::String(version.clone()));
                map.entry("kind")
                    .or_insert_with(|| Value::String(item_kind.clone()));
            }
            self.add(item, origin);
        }
    }

    fn add_object(
        &mut self,
        reference: ObjectRef,
        shown_name: String,
        value: Value,
        origin: &Arc<str>,
        mut findings: Findings,
    ) {
        let object = read_spec(&reference, value, &mut findings).map(|read| Object {
            name: reference.name.clone(),
            origin: Arc::clone(origin),
            created: read.created,
            spec: read.spec,
        });
        self.items.push(Item {
            sound: findings.is_sound(),
            object,
            reference,
        });
        self.problems
            .extend(findings.into_problems(origin, &shown_name));
    }
}

struct ReadSpec {
    created: Option<i64>,
    spec: Spec,
}

fn read_spec(reference: &ObjectRef, value: Value, findings: &mut Findings) -> Option<ReadSpec> {
    let (created, spec) = match reference.kind {
        Kind::Namespace => {
            let m: v1::Namespace = typed(value, findings)?;
            let labels = m.metadata.labels.clone().unwrap_or_default();
            let namespace = Namespace {
                out_of_mesh: membership::read(&m.metadata, findings) == Some(false),
                ..Namespace::with_labels(&reference.name.name, labels)
            };
            (created(&m), Spec::Namespace(Arc::new(namespace)))
        }
        Kind::Node => {
            let m: v1::Node = typed(value, findings)?;
            (created(&m), Spec::Node(Arc::new(node::read(&m, findings))))
        }
        Kind::Pod => {
            let m: v1::Pod = typed(value, findings)?;
            (created(&m), Spec::Pod(Arc::new(pod::read(&m, findings))))
        }
        Kind::Service => {
            let m: v1::Service = typed(value, findings)?;
            (
                created(&m),
                Spec::Service(Arc::new(service::read(&m, findings))),
            )
        }
        Kind::EndpointSlice => {
            let m: discovery::EndpointSlice = typed(value, findings)?;
            let slice = endpoint_slice::read(&m, &reference.name.namespace, findings)?;
            (created(&m), Spec::EndpointSlice(Arc::new(slice)))
        }
        Kind::TrafficPolicy => {
            let m: traffic_policy::Manifest = typed(value, findings)?;
            let policy = traffic_policy::read(&m, findings);
            (
                fields::created(&m.metadata),
                Spec::TrafficPolicy(Arc::new(policy)),
            )
        }
        Kind::HTTPRoute => {
            let m: route::Manifest<route::http::Rule> = typed(value, findings)?;
            let route = route::read(&m, &reference.name.namespace, findings);
            let created = fields::created(&m.metadata);
            (created, Spec::HttpRoute(Arc::new(route)))
        }
        Kind::GRPCRoute => {
            let m: route::Manifest<route::grpc::Rule> = typed(value, findings)?;
            let route = route::read(&m, &reference.name.namespace, findings);
            let created = fields::created(&m.metadata);
            (created, Spec::GrpcRoute(Arc::new(route)))
        }
        Kind::PeerAuthentication => {
            let object = access::peer_authentication::read(&value, findings);
            let created = value.pointer("/metadata/creationTimestamp");
            let created = created.and_then(Value::as_str).and_then(fields::time);
            (created, Spec::PeerAuthentication(Arc::new(object)))
        }
        Kind::NetworkPolicy | Kind::ClusterNetworkPolicy | Kind::AuthorizationPolicy => {
            let policy = access::read(reference, &value, findings)?;
            (None, Spec::Access(Arc::new(policy)))
        }
    };
    Some(ReadSpec { created, spec })
}

fn created<T: Metadata<Ty = ObjectMeta>>(manifest: &T) -> Option<i64> {
    fields::created(manifest.metadata())
}

/// The document as its API type; the first field that does not fit is reported.
fn typed<T: DeserializeOwned>(value: Value, findings: &mut Findings) -> Option<T> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| {
            let path = error.path().to_string();
            let field = if path == "." { String::new() } else { path };
            findings.invalid(field, error.into_inner().to_string());
        })
        .ok()
}
