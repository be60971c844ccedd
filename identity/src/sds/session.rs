//! What a stream of each kind wants and has.

use std::collections::{BTreeMap, BTreeSet};

use tonic::Status;
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};

use super::Secrets;
use super::stream::Session;
use crate::secret::TYPE_URL;

/// More names than a node has identities; each costs memory here.
const MAX_NAMES: usize = 10_000;
/// Longest name: that of a SPIFFE ID.
const MAX_NAME: usize = 2048;

fn check(type_url: &str) -> Result<(), Status> {
    if type_url.is_empty() || type_url == TYPE_URL {
        return Ok(());
    }
    let type_url: String = type_url.chars().take(256).collect();
    Err(Status::invalid_argument(format!(
        "type {type_url:?}: there are only {TYPE_URL} here"
    )))
}

fn check_names<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> Result<(), Status> {
    let (count, mut names) = (names.len(), names);
    if count > MAX_NAMES || names.any(|n| n.len() > MAX_NAME) {
        return Err(Status::invalid_argument(format!(
            "more than {MAX_NAMES} names of secrets, or one of more than {MAX_NAME} bytes"
        )));
    }
    Ok(())
}

fn refused(error: Option<&weft_proto::envoy::google::rpc::Status>) {
    if let Some(error) = error {
        let message: String = error.message.chars().take(1024).collect();
        tracing::warn!("a client of SDS refused a secret: {message}");
    }
}

/// Incremental SDS. Names alone: there is no wildcard for secrets.
#[derive(Default)]
pub(super) struct Delta {
    /// Names, and the version that the client has.
    wanted: BTreeMap<String, Option<u64>>,
    nonce: u64,
}

impl Session for Delta {
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;

    fn on_request(&mut self, request: DeltaDiscoveryRequest) -> Result<(), Status> {
        check(&request.type_url)?;
        refused(request.error_detail.as_ref());
        let names = &request.resource_names_subscribe;
        check_names(names.iter())?;
        if self.wanted.len() + names.len() > MAX_NAMES {
            check_names(vec![String::new(); MAX_NAMES + 1].iter())?;
        }
        for name in request.resource_names_subscribe {
            // Asked for again, it is sent again: the client may have forgotten it.
            let held = request.initial_resource_versions.get(&name);
            let held = held.and_then(|v| u64::from_str_radix(v, 16).ok());
            self.wanted.insert(name, held);
        }
        for name in &request.resource_names_unsubscribe {
            self.wanted.remove(name);
        }
        Ok(())
    }

    fn next_response(&mut self, secrets: &Secrets) -> Option<DeltaDiscoveryResponse> {
        let mut response = DeltaDiscoveryResponse::default();
        for (name, has) in &mut self.wanted {
            match secrets.0.get(name) {
                Some(held) if *has != Some(held.version) => {
                    *has = Some(held.version);
                    response.resources.push(Resource {
                        name: name.clone(),
                        version: format!("{:016x}", held.version),
                        resource: Some((*held.any).clone()),
                        ..Default::default()
                    });
                }
                None if has.take().is_some() => response.removed_resources.push(name.clone()),
                _ => {}
            }
        }
        if response.resources.is_empty() && response.removed_resources.is_empty() {
            return None;
        }
        self.nonce += 1;
        response.nonce = self.nonce.to_string();
        response.type_url = TYPE_URL.to_owned();
        Some(response)
    }
}

/// State of the world: a response has all that was asked for and is there.
#[derive(Default)]
pub(super) struct World {
    wanted: BTreeSet<String>,
    has: BTreeMap<String, u64>,
    nonce: u64,
}

impl Session for World {
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;

    fn on_request(&mut self, request: DiscoveryRequest) -> Result<(), Status> {
        check(&request.type_url)?;
        check_names(request.resource_names.iter())?;
        // One that crosses a newer response on the wire is said again in answer to that.
        if self.nonce > 0 && request.response_nonce != self.nonce.to_string() {
            return Ok(());
        }
        refused(request.error_detail.as_ref());
        self.wanted = request.resource_names.into_iter().collect();
        let wanted = &self.wanted;
        self.has.retain(|name, _| wanted.contains(name));
        Ok(())
    }

    fn next_response(&mut self, secrets: &Secrets) -> Option<DiscoveryResponse> {
        let there: Vec<_> = self
            .wanted
            .iter()
            .filter_map(|name| Some((name, secrets.0.get(name)?)))
            .collect();
        let new =
            |(name, held): &(&String, &super::Held)| self.has.get(*name) != Some(&held.version);
        if !there.iter().any(new) {
            return None;
        }
        self.has = there
            .iter()
            .map(|(name, held)| ((*name).clone(), held.version))
            .collect();
        self.nonce += 1;
        Some(DiscoveryResponse {
            version_info: self.nonce.to_string(),
            nonce: self.nonce.to_string(),
            type_url: TYPE_URL.to_owned(),
            resources: there.iter().map(|(_, held)| (*held.any).clone()).collect(),
            ..Default::default()
        })
    }
}

#[cfg(test)]
mod tests;
