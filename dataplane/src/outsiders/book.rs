//! What the table holds, and what follows from the next look.

use std::collections::{BTreeMap, BTreeSet};

use crate::bpf::Record;
use crate::interfaces::InterfaceIndex;
use crate::tables::{Table, TableError, WriteError};

/// What the kernel calls a network namespace in the sockets of it (`SO_NETNS_COOKIE`). No other one ever gets the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetnsCookie(pub u64);

impl Record for NetnsCookie {
    type Raw = u64;

    fn to_raw(&self) -> u64 {
        self.0
    }

    fn from_raw(raw: u64) -> Option<Self> {
        (raw != 0).then_some(Self(raw))
    }
}

/// The value of all entries: a key says it all.
const OUT: u32 = 1;

/// The table, and whose the namespaces in it are.
pub(super) struct Book {
    table: Box<dyn Table<NetnsCookie, u32>>,
    found: BTreeMap<InterfaceIndex, NetnsCookie>,
    written: BTreeSet<NetnsCookie>,
    /// Some may be an earlier agent's, of pods that have not been found yet.
    inherits: bool,
}

impl Book {
    /// Takes over what an earlier agent has written.
    pub(super) fn new(table: Box<dyn Table<NetnsCookie, u32>>) -> Result<Self, TableError> {
        let written: BTreeSet<NetnsCookie> = table.entries()?.into_iter().map(|(c, _)| c).collect();
        Ok(Self {
            table,
            found: BTreeMap::new(),
            inherits: !written.is_empty(),
            written,
        })
    }

    /// Makes the table hold the namespaces behind the interfaces `wanted`, of which these were `found` now; false if some were not.
    /// A namespace that was found once stays for as long as its interface is wanted.
    ///
    /// `settled`: no other interface would be wanted if all pods had been found.
    pub(super) fn keep(
        &mut self,
        wanted: &BTreeSet<InterfaceIndex>,
        found: BTreeMap<InterfaceIndex, NetnsCookie>,
        settled: bool,
    ) -> Result<bool, WriteError> {
        let complete = found.len() == wanted.len();
        self.found.retain(|index, _| wanted.contains(index));
        self.found.extend(found);
        self.inherits &= !(settled && complete);
        let now: BTreeSet<NetnsCookie> = self.found.values().copied().collect();
        if !self.inherits {
            let gone: Vec<NetnsCookie> = self.written.difference(&now).copied().collect();
            self.table.delete(&gone)?;
            self.written.retain(|cookie| now.contains(cookie));
        }
        let fresh: Vec<NetnsCookie> = now.difference(&self.written).copied().collect();
        // One by one, so that it is known what is in a table that is full.
        for cookie in fresh {
            self.table.write(&[(cookie, OUT)])?;
            self.written.insert(cookie);
        }
        Ok(complete)
    }
}

#[cfg(test)]
mod tests;
