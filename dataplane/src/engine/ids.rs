//! Ids that are never given out twice while a socket may remember them.

use crate::tables::{AllocatedIds, BackendId, ServiceId, Table, TableError, Tables, WriteError};

/// Key of the one entry in `ids`.
const ENTRY: u32 = 0;

/// Gives out ids in ascending order; after 2^32 it starts again and passes over those in use.
///
/// Call [`Ids::persist`] before an id is used: then a crash cannot lead to its being given out again.
#[derive(Debug)]
pub(super) struct Ids {
    next: AllocatedIds,
    persisted: AllocatedIds,
    /// Ids at or above `next` may be in use: look before giving one out.
    wrapped: bool,
    /// Given out, but never reached a slot or VIP: no socket can know them.
    returned: Vec<BackendId>,
}

impl Ids {
    /// Goes on where `tables` says, or above everything in use where it says nothing.
    pub(super) fn load(
        tables: &Tables,
        highest_service: u32,
        highest_backend: u32,
    ) -> Result<Self, TableError> {
        let stored = tables.ids.get(&ENTRY)?.unwrap_or_default();
        let start = |next: u32, highest: u32| match next {
            0 => highest.wrapping_add(1).max(1),
            next => next,
        };
        let next = AllocatedIds {
            next_service: start(stored.next_service, highest_service),
            next_backend: start(stored.next_backend, highest_backend),
        };
        Ok(Self {
            wrapped: highest_service >= next.next_service || highest_backend >= next.next_backend,
            next,
            // Fresh tables: nothing was given out, so there is nothing to store.
            persisted: match (highest_service, highest_backend) {
                (0, 0) if stored == AllocatedIds::default() => next,
                _ => stored,
            },
            returned: Vec::new(),
        })
    }

    /// A service id for which `in_use` is false.
    pub(super) fn service(&mut self, in_use: impl Fn(ServiceId) -> bool) -> ServiceId {
        loop {
            let id = ServiceId(step(&mut self.next.next_service, &mut self.wrapped));
            if !self.wrapped || !in_use(id) {
                return id;
            }
        }
    }

    /// A backend id whose places in the tables are free. When there is none, one whose places are taken: writing it will say
    /// that the table is full.
    pub(super) fn backend(&mut self, tables: &Tables) -> BackendId {
        while let Some(id) = self.returned.pop() {
            if is_free(tables, id) {
                return id;
            }
        }
        let places = tables.backends.capacity().max(1);
        let mut id = BackendId(0);
        for _ in 0..places {
            id = BackendId(step(&mut self.next.next_backend, &mut self.wrapped));
            if is_free(tables, id) {
                break;
            }
        }
        id
    }

    /// Takes ids back that were written nowhere, or only to entries that nothing pointed to and that are deleted.
    pub(super) fn give_back(&mut self, ids: impl IntoIterator<Item = BackendId>) {
        self.returned.extend(ids);
    }

    /// Stores where to go on; no write when that has not changed.
    pub(super) fn persist(
        &mut self,
        table: &mut dyn Table<u32, AllocatedIds>,
    ) -> Result<(), WriteError> {
        if self.next != self.persisted {
            table.write(&[(ENTRY, self.next)])?;
            self.persisted = self.next;
        }
        Ok(())
    }
}

fn step(next: &mut u32, wrapped: &mut bool) -> u32 {
    let id = (*next).max(1);
    *next = id.checked_add(1).unwrap_or_else(|| {
        *wrapped = true;
        1
    });
    id
}

fn is_free(tables: &Tables, id: BackendId) -> bool {
    tables.backends.is_free(&id) && tables.loads.is_free(&id)
}
