//! What follows from a change of a service.

use super::claims::Claimant;
use super::{Entry, Model};
use crate::object::{ObjectName, Service};

impl Model {
    pub(super) fn apply_service(&mut self, name: &ObjectName, service: Option<Entry<Service>>) {
        if self.services.get(name) == service.as_ref() {
            return;
        }
        self.dirty.services.insert(name.clone());
        let routing = self.routing_to(name);
        self.dirty.services.extend(routing);
        let claimant = |entry: &Entry<Service>| Claimant {
            created: entry.created,
            service: name.clone(),
        };
        if let Some(old) = self.services.remove(name) {
            let rivals = self.claims.remove(&claimant(&old), &old.spec);
            self.dirty.services.extend(rivals);
            let rivals = self.node_ports.remove(&claimant(&old), &old.spec);
            self.dirty.services.extend(rivals);
            self.selectors
                .remove(name, old.spec.selector.iter().take(1));
        }
        if let Some(service) = service {
            let rivals = self.claims.insert(&claimant(&service), &service.spec);
            self.dirty.services.extend(rivals);
            let rivals = self.node_ports.insert(&claimant(&service), &service.spec);
            self.dirty.services.extend(rivals);
            // One label of the selector is enough to find it by.
            self.selectors
                .insert(name, service.spec.selector.iter().take(1));
            self.services.insert(name.clone(), service);
        }
    }
}
