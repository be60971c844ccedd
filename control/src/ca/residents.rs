//! Which service accounts have pods on which node: whose certificates a node may ask for.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::object::ObjectName;

/// Node, namespace, service account.
type Place = (String, String, String);

/// Service accounts by node, as the scheduled pods say.
#[derive(Debug, Default)]
pub struct Residents {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    pods: HashMap<ObjectName, Place>,
    /// How many pods say so.
    places: HashMap<Place, usize>,
}

impl State {
    fn leave(&mut self, pod: &ObjectName) {
        let Some(place) = self.pods.remove(pod) else {
            return;
        };
        if let Some(count) = self.places.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                self.places.remove(&place);
            }
        }
    }
}

impl Residents {
    /// Notes where a pod runs, and as whom; `None`: nowhere, or no more.
    pub fn set(&self, pod: &ObjectName, place: Option<(&str, &str)>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.leave(pod);
        if let Some((node, account)) = place.filter(|(node, _)| !node.is_empty()) {
            let namespace = pod.namespace.to_string();
            let place = (node.to_owned(), namespace, account.to_owned());
            state.pods.insert(pod.clone(), place.clone());
            *state.places.entry(place).or_default() += 1;
        }
    }

    /// Whether a pod of this service account runs on the node.
    #[must_use]
    pub fn has(&self, node: &str, namespace: &str, account: &str) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let place = (node.to_owned(), namespace.to_owned(), account.to_owned());
        state.places.contains_key(&place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> ObjectName {
        ObjectName::new("shop", name)
    }

    #[test]
    fn an_account_is_on_a_node_as_long_as_one_of_its_pods_is() {
        let residents = Residents::default();
        residents.set(&pod("a"), Some(("n1", "cart")));
        residents.set(&pod("b"), Some(("n1", "cart")));
        assert!(residents.has("n1", "shop", "cart"));
        assert!(!residents.has("n2", "shop", "cart"));
        assert!(!residents.has("n1", "shop", "pay"));
        assert!(!residents.has("n1", "other", "cart"));
        residents.set(&pod("a"), Some(("n2", "cart")));
        assert!(residents.has("n1", "shop", "cart") && residents.has("n2", "shop", "cart"));
        residents.set(&pod("b"), None);
        assert!(!residents.has("n1", "shop", "cart"));
        residents.set(&pod("a"), Some(("", "cart")));
        assert!(!residents.has("n2", "shop", "cart") && !residents.has("", "shop", "cart"));
        assert!(residents.state.read().unwrap().places.is_empty());
    }
}
