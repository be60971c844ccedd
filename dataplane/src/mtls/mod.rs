//! What pods take from other nodes, as the kernel is told.
//!
//! Fails closed. A local pod that finds no room is taken to require mTLS, and nothing is written before all workloads are known: what an
//! earlier agent left goes on to hold. Of pods of other nodes only those are told that this node can open tunnels to.

mod written;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use weft_proto::model::{Workload, WorkloadKind};

use crate::tables::mtls::{Mode, ModeKey, MtlsState, MtlsTables};
use crate::tables::{MapUsage, TableError};
use written::Written;

/// Decides what stands in the tables.
pub struct MtlsEngine {
    node: String,
    /// This node has an Envoy, which opens tunnels.
    opens: bool,
    /// Entries of each workload.
    workloads: HashMap<String, BTreeMap<ModeKey, Mode>>,
    /// Workloads by address, the first by name counts.
    owners: BTreeMap<IpAddr, BTreeSet<String>>,
    written: Written,
    state: MtlsState,
    dirty: BTreeSet<IpAddr>,
    /// Local entries that could not be written.
    homeless: BTreeSet<ModeKey>,
    synced: bool,
    usage: MapUsage,
}

impl MtlsEngine {
    /// Takes over what the tables hold.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn new(tables: &MtlsTables, node: &str, opens: bool) -> Result<Self, TableError> {
        let written: Written = tables.modes.entries()?.into_iter().collect();
        let state = tables.state.get(&0)?.unwrap_or_default();
        Ok(Self {
            node: node.to_owned(),
            opens,
            workloads: HashMap::new(),
            owners: BTreeMap::new(),
            dirty: written.keys().map(|key| key.address).collect(),
            written,
            state,
            homeless: BTreeSet::new(),
            synced: false,
            usage: MapUsage::of(&*tables.modes),
        })
    }

    /// A workload is new or changed. In effect after [`MtlsEngine::apply`], as all changes.
    pub fn set_workload(&mut self, name: &str, workload: &Workload) {
        let entries = self.entries(workload);
        if self.workloads.get(name).unwrap_or(&BTreeMap::new()) == &entries {
            return;
        }
        self.remove_workload(name);
        for key in entries.keys() {
            let names = self.owners.entry(key.address).or_default();
            names.insert(name.to_owned());
            self.dirty.insert(key.address);
        }
        if !entries.is_empty() {
            self.workloads.insert(name.to_owned(), entries);
        }
    }

    /// A workload is gone.
    pub fn remove_workload(&mut self, name: &str) {
        for key in self.workloads.remove(name).unwrap_or_default().keys() {
            if let Some(names) = self.owners.get_mut(&key.address) {
                names.remove(name);
                if names.is_empty() {
                    self.owners.remove(&key.address);
                }
            }
            self.dirty.insert(key.address);
        }
    }

    /// All workloads have been received once.
    pub fn set_synced(&mut self) {
        self.synced = true;
    }

    /// Whether some local pod takes tunnels, and there is an Envoy to end them.
    #[must_use]
    pub fn takes_tunnels(&self) -> bool {
        self.opens && self.written.any_here()
    }

    /// How full the table is.
    #[must_use]
    pub fn usage(&self) -> MapUsage {
        MapUsage {
            entries: self.written.len(),
            ..self.usage
        }
    }

    /// Brings the tables up to date. True: living connections may be judged otherwise than before.
    pub fn apply(&mut self, tables: &mut MtlsTables) -> bool {
        if !self.synced {
            return false;
        }
        let before = (self.written.strict().clone(), self.state);
        for address in std::mem::take(&mut self.dirty) {
            self.write(tables, address);
        }
        self.tell(tables);
        before != (self.written.strict().clone(), self.state)
    }

    /// What the kernel is to know about a workload.
    fn entries(&self, workload: &Workload) -> BTreeMap<ModeKey, Mode> {
        let here = workload.node == self.node;
        let is_pod =
            workload.kind == WorkloadKind::Pod && !workload.host_network && !workload.out_of_mesh;
        if !is_pod || !workload.mtls.tunnel || !(here || self.opens) {
            return BTreeMap::new();
        }
        let mtls = &workload.mtls;
        let whole = Mode {
            mode: mtls.mode,
            here,
            ports: !mtls.ports.is_empty(),
        };
        let mut entries = BTreeMap::new();
        for address in &workload.addresses {
            let key = |port| ModeKey {
                address: *address,
                port,
            };
            entries.insert(key(0), whole);
            entries.extend(mtls.ports.iter().map(|(port, mode)| {
                let mode = *mode;
                let ports = false;
                (key(*port), Mode { mode, here, ports })
            }));
        }
        entries
    }

    /// Ports first, then the entry that says that there are any; the other way round where they go.
    fn write(&mut self, tables: &mut MtlsTables, address: IpAddr) {
        let all = ModeKey { address, port: 0 }..=ModeKey {
            address,
            port: u16::MAX,
        };
        let owner = self.owners.get(&address).and_then(BTreeSet::first);
        let wanted: BTreeMap<ModeKey, Mode> = owner
            .and_then(|name| self.workloads.get(name))
            .into_iter()
            .flat_map(|entries| entries.range(all.clone()))
            .map(|(key, mode)| (*key, *mode))
            .collect();
        self.homeless.retain(|key| key.address != address);
        for (key, mode) in wanted.iter().rev() {
            if self.written.get(key) == Some(mode) {
                continue;
            }
            if let Err(e) = tables.modes.write(&[(*key, *mode)]) {
                self.give_up(tables, *key, *mode, &e.to_string());
                return;
            }
            self.written.insert(*key, *mode);
        }
        let found = self.written.within(all).copied();
        let gone: Vec<ModeKey> = found.filter(|key| !wanted.contains_key(key)).collect();
        if gone.is_empty() {
            return;
        }
        match tables.modes.delete(&gone) {
            Ok(()) => gone.iter().for_each(|key| self.written.remove(key)),
            Err(e) => {
                tracing::warn!("{address}: what it takes from other nodes stays for now: {e}");
                self.dirty.insert(address);
            }
        }
    }

    /// Tried again with the next change.
    fn give_up(&mut self, tables: &mut MtlsTables, key: ModeKey, mode: Mode, reason: &str) {
        tracing::error!(
            "{}: the kernel cannot be told its mTLS mode: {reason}",
            key.address
        );
        self.usage.full += 1;
        self.dirty.insert(key.address);
        if mode.here {
            self.homeless.insert(key);
            // Without an entry it requires mTLS.
            let whole = ModeKey { port: 0, ..key };
            if tables.modes.delete(&[whole]).is_ok() {
                self.written.remove(&whole);
            }
        }
    }

    fn tell(&mut self, tables: &mut MtlsTables) {
        let state = MtlsState {
            opens: self.opens && self.written.any_elsewhere(),
            requires: !self.written.strict().is_empty() || !self.homeless.is_empty(),
            no_room: !self.homeless.is_empty(),
        };
        if state == self.state {
            return;
        }
        match tables.state.write(&[(0, state)]) {
            Ok(()) => self.state = state,
            Err(e) => tracing::error!("the kernel was not told of mTLS modes: {e}"),
        }
    }
}

#[cfg(test)]
mod tests;
