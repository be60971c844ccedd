//! What sets in use are told of identities that come and go.

use std::collections::BTreeMap;

use super::Sets;
use crate::policy::compile::{DEFAULT, FunctionIndex};
use crate::policy::subject::Class;
use crate::tables::policy::{IdentityNumber, PeerKey, PolicyTables, SetId};

impl Sets {
    /// Tells every set of identities that nobody in the kernel has yet. One that some set cannot be told of, no set is, see
    /// [`Sets::untold`].
    pub(in crate::policy) fn learn(
        &mut self,
        tables: &mut PolicyTables,
        fresh: &[(IdentityNumber, Class)],
    ) {
        let mut left: Vec<&(IdentityNumber, Class)> = fresh.iter().collect();
        let mut failed = BTreeMap::new();
        for (number, _) in fresh {
            self.untold.remove(number);
        }
        let ids: Vec<SetId> = self.live.keys().copied().collect();
        for id in ids {
            failed.extend(self.teach(tables, id, &left));
            left.retain(|(number, _)| !failed.contains_key(number));
        }
        self.withdraw(tables, failed);
    }

    /// Takes it back from every set that these identities exist, until [`Sets::learn`] is told them again.
    pub(in crate::policy) fn withdraw(
        &mut self,
        tables: &mut PolicyTables,
        reasons: BTreeMap<IdentityNumber, String>,
    ) {
        if !reasons.is_empty() {
            self.forget(tables, reasons.keys());
            self.untold.extend(reasons);
        }
    }

    /// Returns those that the set cannot be told of, and why.
    fn teach(
        &mut self,
        tables: &mut PolicyTables,
        id: SetId,
        fresh: &[&(IdentityNumber, Class)],
    ) -> BTreeMap<IdentityNumber, String> {
        let mut failed = BTreeMap::new();
        let Some(set) = self.live.get_mut(&id) else {
            return failed;
        };
        let mut own = Vec::new();
        for (number, class) in fresh {
            let function = set.compiled.learn(class);
            if function != DEFAULT {
                own.push((*number, function));
            }
        }
        if own.is_empty() || self.extend(tables, id, &own).is_ok() {
            return failed;
        }
        // What fits goes in.
        for one in own {
            if let Err(reason) = self.extend(tables, id, &[one]) {
                failed.insert(one.0, reason);
            }
        }
        failed
    }

    fn extend(
        &mut self,
        tables: &mut PolicyTables,
        id: SetId,
        own: &[(IdentityNumber, FunctionIndex)],
    ) -> Result<(), String> {
        if !self.peers_usage().has_room(own.len()) {
            return Err(self.peers.refuse());
        }
        self.add_functions(tables, id)?;
        let Some(set) = self.live.get_mut(&id) else {
            return Ok(());
        };
        let known = own.iter();
        let known = known.filter_map(|(peer, function)| Some((*peer, set.range(*function)?)));
        let entries: Vec<_> = known.collect();
        if let Err(reason) = self.write_peers(tables, id, &entries) {
            self.discard(tables, id, own.iter().map(|(number, _)| *number));
            return Err(reason);
        }
        if let Some(set) = self.live.get_mut(&id) {
            set.peers.extend(own.iter().copied());
        }
        Ok(())
    }

    /// Those of these peers that a failed write has left there are garbage.
    pub(super) fn discard(
        &mut self,
        tables: &PolicyTables,
        set: SetId,
        peers: impl Iterator<Item = IdentityNumber>,
    ) {
        let keys = peers.map(|identity| PeerKey { set, identity });
        let there = |key: &PeerKey| !matches!(tables.peer_rules.get(key), Ok(None));
        self.garbage.extend(keys.filter(there));
    }

    /// Identities that no set knows, and why.
    pub(in crate::policy) const fn untold(&self) -> &BTreeMap<IdentityNumber, String> {
        &self.untold
    }

    /// Deletes what sets say of identities that nobody has.
    pub(in crate::policy) fn forget<'a>(
        &mut self,
        tables: &mut PolicyTables,
        numbers: impl IntoIterator<Item = &'a IdentityNumber>,
    ) {
        for number in numbers {
            self.untold.remove(number);
            for (id, set) in &mut self.live {
                if set.peers.remove(number).is_some() {
                    self.garbage.insert(PeerKey {
                        set: *id,
                        identity: *number,
                    });
                }
            }
        }
        self.sweep(tables);
    }

    /// Deletes what sets of an earlier agent say of identities that nothing in the kernel has.
    pub(in crate::policy) fn forget_strangers(
        &mut self,
        tables: &mut PolicyTables,
        is_known: impl Fn(IdentityNumber) -> bool,
    ) {
        for (id, set) in &mut self.found {
            let strangers = set.peers.keys().copied();
            let strangers = strangers.filter(|number| !is_known(*number));
            for identity in strangers.collect::<Vec<_>>() {
                set.peers.remove(&identity);
                self.garbage.insert(PeerKey { set: *id, identity });
            }
        }
        self.sweep(tables);
    }
}
