//! From the wire to an [`Update`], resource by resource.

use std::collections::HashSet;

use prost::Message;
use weft_proto::convert;
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryResponse, DiscoveryResponse, Resource as Wrapper,
};
use weft_proto::envoy::google::protobuf::Any;
use weft_proto::resource::ResourceType;

use crate::compile::LocalityPool;
use crate::engine::{NodeResource, Rejection, Update};

/// A response in the engine's terms.
pub(super) struct Decoded {
    pub(super) update: Update,
    /// Version of each resource in the update.
    pub(super) versions: Vec<(String, String)>,
}

/// Decodes an incremental response.
pub(super) fn delta(
    resource_type: ResourceType,
    response: DeltaDiscoveryResponse,
    pool: &mut LocalityPool,
) -> Decoded {
    let mut decoder = Decoder::new(resource_type, pool);
    decoder.update.removals = response.removed_resources;
    for wrapper in response.resources {
        decoder.wrapped(wrapper);
    }
    decoder.finish()
}

/// Decodes the state of the world of a type; endpoints are never replaced as a whole, for they are asked for by name.
pub(super) fn world(
    resource_type: ResourceType,
    response: DiscoveryResponse,
    pool: &mut LocalityPool,
) -> Decoded {
    let mut decoder = Decoder::new(resource_type, pool);
    decoder.update.replace = resource_type != ResourceType::Endpoints;
    for any in response.resources {
        decoder.bare(any, &response.version_info);
    }
    decoder.finish()
}

struct Decoder<'a> {
    resource_type: ResourceType,
    pool: &'a mut LocalityPool,
    update: Update,
    versions: Vec<(String, String)>,
    seen: HashSet<String>,
    position: usize,
}

impl<'a> Decoder<'a> {
    fn new(resource_type: ResourceType, pool: &'a mut LocalityPool) -> Self {
        Self {
            resource_type,
            pool,
            update: Update::new(resource_type),
            versions: Vec::new(),
            seen: HashSet::new(),
            position: 0,
        }
    }

    fn finish(self) -> Decoded {
        Decoded {
            update: self.update,
            versions: self.versions,
        }
    }

    fn wrapped(&mut self, wrapper: Wrapper) {
        let Some(any) = wrapper.resource else {
            // Without content it only renews a time to live, which we have none of; but then it must have been sent before.
            if wrapper.ttl.is_none() {
                self.reject(wrapper.name, "resource: is missing");
            }
            return;
        };
        self.resource(wrapper.name, wrapper.version, &any);
    }

    fn bare(&mut self, any: Any, version: &str) {
        if any.type_url == "type.googleapis.com/envoy.service.discovery.v3.Resource" {
            match Wrapper::decode(any.value.as_slice()) {
                Ok(wrapper) => self.wrapped(wrapper),
                Err(e) => self.reject(String::new(), &format!("cannot be decoded: {e}")),
            }
            return;
        }
        self.resource(peek_name(&any), version.to_owned(), &any);
    }

    fn resource(&mut self, name: String, version: String, any: &Any) {
        self.position += 1;
        let resource = match convert::decode(self.resource_type, any) {
            Ok(resource) => resource,
            Err(e) => {
                if self.resource_type == ResourceType::Policy && !name.is_empty() {
                    let closed = convert::closed_policies(&name, &any.value);
                    self.update.closed.push((name.clone(), closed));
                }
                let reason = match e.field.is_empty() {
                    true => e.reason,
                    false => e.to_string(),
                };
                return self.reject(name, &reason);
            }
        };
        let inner = resource.name();
        // The name of a problem is derived from its content; the server may call it something else.
        let is_derived = self.resource_type == ResourceType::Problem;
        let name = match name.is_empty() {
            true => inner.clone(),
            false => name,
        };
        if name != inner && !is_derived {
            let reason = format!("name: the resource inside is called {inner:?}");
            return self.reject(name, &reason);
        }
        if !self.seen.insert(name.clone()) {
            return self.reject(name, "stands twice in one response: the first counts");
        }
        self.versions.push((name.clone(), version));
        if let Some(resource) = NodeResource::new(resource, self.pool) {
            self.update.upserts.push((name, resource));
        }
    }

    fn reject(&mut self, name: String, reason: &str) {
        let name = if name.is_empty() {
            // Whoever this is may be among what is held: remove nothing.
            self.update.replace = false;
            format!("resources[{}]", self.position.saturating_sub(1))
        } else {
            name
        };
        let reason = reason.to_owned();
        self.update.rejected.push(Rejection { name, reason });
    }
}

/// All types have their name in field 1.
#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

/// The name inside, as far as it can be read; an unreadable resource is named in its rejection all the same.
fn peek_name(any: &Any) -> String {
    Named::decode(any.value.as_slice())
        .map(|named| named.name)
        .unwrap_or_default()
}
