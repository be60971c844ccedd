//! What nodes have refused, and why.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde::Serialize;
use weft_proto::resource::ResourceType;

use super::history::Sent;

const MAX_NODES: usize = 4096;
const MAX_PER_NODE: usize = 128;
const MAX_REASON_CHARS: usize = 1024;

/// A resource that a node has refused and not taken since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nack {
    /// `node.id` of the client.
    pub node: String,
    /// Type of the resource, as in "Listener".
    pub resource_type: String,
    /// Its name; empty when the client did not say which of several it was.
    pub resource: String,
    /// The client's own words.
    pub reason: String,
    /// How often it was refused.
    pub count: u64,
    /// When it was refused last, in seconds since 1970.
    pub last_seen: u64,
}

type Key = (ResourceType, Arc<str>);

/// NACKs of all nodes that have not been made good.
#[derive(Debug, Default)]
pub struct Nacks {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<Arc<str>, BTreeMap<Key, Nack>>,
    total: u64,
}

impl Nacks {
    /// All that stand, by node, type and resource.
    #[must_use]
    pub fn list(&self) -> Vec<Nack> {
        let state = self.lock();
        state
            .nodes
            .values()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// How many were received since the start.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// Notes a refusal. `sent` is the response it answers, when that is known.
    pub(super) fn refused(
        &self,
        node: &Arc<str>,
        resource_type: ResourceType,
        sent: Option<&Sent>,
        reason: &str,
    ) {
        let reason: String = reason.chars().take(MAX_REASON_CHARS).collect();
        let mut state = self.lock();
        state.total += 1;
        if !state.nodes.contains_key(node) && state.nodes.len() >= MAX_NODES {
            tracing::warn!(%node, %resource_type, %reason, "resource refused; too many nodes have refused some for this one to be listed");
            return;
        }
        let nacks = state.nodes.entry(Arc::clone(node)).or_default();
        for resource in blamed(sent, &reason) {
            note(nacks, node, (resource_type, resource), &reason);
        }
    }

    /// Notes that a node has taken a response: what it refused of it before is made good.
    pub(super) fn accepted(&self, node: &str, sent: &Sent) {
        let mut state = self.lock();
        let Some(nacks) = state.nodes.get_mut(node) else {
            return;
        };
        for name in sent.names.iter().cloned().chain([Arc::from("")]) {
            nacks.remove(&(sent.resource_type, name));
        }
        if nacks.is_empty() {
            state.nodes.remove(node);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(nacks: &mut BTreeMap<Key, Nack>, node: &str, key: Key, reason: &str) {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let full = nacks.len() >= MAX_PER_NODE;
    match nacks.get_mut(&key) {
        Some(known) => {
            known.count += 1;
            known.last_seen = now;
            if known.reason == reason {
                return;
            }
            reason.clone_into(&mut known.reason);
        }
        None if full => return,
        None => {
            let nack = Nack {
                node: node.to_owned(),
                resource_type: key.0.to_string(),
                resource: key.1.to_string(),
                reason: reason.to_owned(),
                count: 1,
                last_seen: now,
            };
            nacks.insert(key.clone(), nack);
        }
    }
    tracing::warn!(%node, resource_type = %key.0, resource = %key.1, %reason, "resource refused");
}

/// The resources a reason is about: the only one that was sent, or those that the reason names. One empty name when unknown.
fn blamed(sent: Option<&Sent>, reason: &str) -> Vec<Arc<str>> {
    let names = sent.map_or(&[][..], |s| &s.names);
    if let [only] = names {
        return vec![Arc::clone(only)];
    }
    let named: Vec<Arc<str>> = names
        .iter()
        .filter(|name| mentions(reason, name))
        .take(MAX_PER_NODE)
        .cloned()
        .collect();
    if named.is_empty() {
        vec![Arc::from("")]
    } else {
        named
    }
}

/// Whether `text` has `name` in it and not only a longer name around it.
fn mentions(text: &str, name: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '/' | '_');
    text.match_indices(name).any(|(at, _)| {
        let before = text.get(..at).and_then(|t| t.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|t| t.chars().next());
        !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::super::history::History;
    use super::*;

    fn sent(names: &[&str]) -> Sent {
        let mut history = History::default();
        let names = names.iter().map(|n| Arc::from(*n)).collect();
        let nonce = history.add(ResourceType::Listener, names);
        history.take(&nonce).unwrap()
    }

    fn names(nacks: &Nacks) -> Vec<String> {
        nacks.list().into_iter().map(|n| n.resource).collect()
    }

    #[test]
    fn the_reason_names_the_resource() {
        let nacks = Nacks::default();
        let response = sent(&["a/b:80/tcp", "xa/b:80/tcp", "a/c:80/tcp"]);
        let node: Arc<str> = Arc::from("n1");
        nacks.refused(
            &node,
            ResourceType::Listener,
            Some(&response),
            "xa/b:80/tcp: map is full",
        );
        assert_eq!(names(&nacks), ["xa/b:80/tcp"]);
        nacks.refused(
            &node,
            ResourceType::Listener,
            Some(&response),
            "xa/b:80/tcp: map is full",
        );
        assert_eq!(nacks.list()[0].count, 2);
        assert_eq!(nacks.total(), 2);
    }

    #[test]
    fn an_ack_makes_good() {
        let nacks = Nacks::default();
        let node: Arc<str> = Arc::from("n1");
        nacks.refused(&node, ResourceType::Listener, Some(&sent(&["a"])), "no");
        nacks.refused(&node, ResourceType::Listener, None, "what?");
        nacks.accepted("n1", &sent(&["b"]));
        assert_eq!(names(&nacks), ["a"]);
        nacks.accepted("n1", &sent(&["a", "b"]));
        assert!(nacks.list().is_empty());
    }

    #[test]
    fn a_hostile_node_is_bounded() {
        let nacks = Nacks::default();
        let node: Arc<str> = Arc::from("n1");
        for i in 0..10 * MAX_PER_NODE {
            let response = sent(&[&format!("r{i}")]);
            let reason = "x".repeat(100_000);
            nacks.refused(&node, ResourceType::Listener, Some(&response), &reason);
        }
        assert_eq!(nacks.list().len(), MAX_PER_NODE);
        assert!(
            nacks
                .list()
                .iter()
                .all(|n| n.reason.len() <= MAX_REASON_CHARS)
        );
    }
}
