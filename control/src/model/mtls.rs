//! PeerAuthentications, and what follows from them for a pod.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use weft_proto::model::{Mtls, MtlsMode};

use super::{Entry, Model};
use crate::object::{ObjectName, PeerAuthentication, Pod};

/// All of them.
#[derive(Debug, Default)]
pub(super) struct PeerAuthentications {
    all: HashMap<ObjectName, Entry<PeerAuthentication>>,
    by_namespace: HashMap<Arc<str>, BTreeSet<ObjectName>>,
}

impl PeerAuthentications {
    fn of(
        &self,
        namespace: &str,
    ) -> impl Iterator<Item = (&ObjectName, &Entry<PeerAuthentication>)> {
        let names = self.by_namespace.get(namespace);
        names
            .into_iter()
            .flatten()
            .filter_map(|name| Some((name, self.all.get(name)?)))
    }

    /// Of those of a namespace that `applies` to, the one that counts: the oldest, then the first by name.
    fn first(
        &self,
        namespace: &str,
        applies: impl Fn(&PeerAuthentication) -> bool,
    ) -> Option<&PeerAuthentication> {
        self.of(namespace)
            .filter(|(_, entry)| applies(&entry.spec))
            .min_by_key(|(name, entry)| (entry.created, *name))
            .map(|(_, entry)| entry.spec.as_ref())
    }
}

impl Model {
    /// A PeerAuthentication by name.
    #[must_use]
    pub fn peer_authentication(&self, name: &ObjectName) -> Option<&Entry<PeerAuthentication>> {
        self.peer_authentications.all.get(name)
    }

    /// How connections from other nodes have to come to a pod, as Istio has it: mesh, namespace, workload, the narrowest that says
    /// anything counts; ports by the workload's object alone. `root`: the namespace whose objects without selector are the mesh's.
    #[must_use]
    pub fn mtls_of(&self, name: &ObjectName, pod: &Pod, root: &str) -> Mtls {
        let all = &self.peer_authentications;
        let wide = |namespace: &str| all.first(namespace, |p| p.workloads.is_everything());
        let is_elsewhere = &*name.namespace != root;
        let namespace = wide(&name.namespace).filter(|_| is_elsewhere);
        let selects = |p: &PeerAuthentication| {
            !p.workloads.is_everything() && p.workloads.selects(&pod.labels)
        };
        // In the root namespace selectors mean nothing, as in Istio.
        let workload = all.first(&name.namespace, selects).filter(|_| is_elsewhere);
        let mode = [workload, namespace, wide(root)]
            .into_iter()
            .flatten()
            .find_map(|object| object.mode)
            .unwrap_or_default();
        let ports = workload.map_or_else(BTreeMap::new, |object| ports(object, mode));
        Mtls {
            mode,
            ports,
            tunnel: false,
        }
    }

    pub(super) fn apply_peer_authentication(
        &mut self,
        name: &ObjectName,
        object: Option<Entry<PeerAuthentication>>,
    ) {
        let PeerAuthentications { all, by_namespace } = &mut self.peer_authentications;
        let old = match &object {
            Some(object) => all.insert(name.clone(), object.clone()),
            None => all.remove(name),
        };
        if old == object {
            return;
        }
        let names = by_namespace.entry(Arc::clone(&name.namespace)).or_default();
        if object.is_some() {
            names.insert(name.clone());
        } else {
            names.remove(name);
            if names.is_empty() {
                by_namespace.remove(&name.namespace);
            }
        }
        self.dirty.mtls.insert(name.clone());
    }
}

fn ports(object: &PeerAuthentication, mode: MtlsMode) -> BTreeMap<u16, MtlsMode> {
    let ports = object.ports.iter();
    ports
        .map(|(port, of_port)| (*port, of_port.unwrap_or(mode)))
        .filter(|(_, of_port)| *of_port != mode)
        .collect()
}
