//! Backends and their loads: arrays in which an entry's place is its id modulo the size.

use std::io;
use std::marker::PhantomData;

use libbpf_rs::MapHandle;

use super::abi::Record;
use super::table::BpfTable;
use crate::tables::{BackendId, Table, TableError, WriteError};

/// What stands in a place. All zero is a free place.
pub(crate) trait Placed: Copy + Send + 'static {
    /// The form in the map: the value with its id.
    type Cell: Record + Copy + Default + Send + 'static;

    /// The cell for this id.
    fn to_cell(self, id: BackendId) -> Self::Cell;

    /// The id and the value of a cell that is not free.
    fn from_cell(cell: Self::Cell) -> Option<(BackendId, Self)>;
}

/// An array of cells as a table by id.
pub(super) struct PlaceTable<V: Placed> {
    cells: BpfTable<u32, V::Cell>,
    /// Whose each place is; 0 for nobody's.
    owners: Vec<u32>,
    value: PhantomData<fn(V)>,
}

impl<V: Placed> PlaceTable<V> {
    /// The table over `map`; all ids in it are below `next`.
    ///
    /// # Errors
    /// When the map is of another layout or cannot be read.
    pub(super) fn new(name: &'static str, map: MapHandle, next: u32) -> Result<Self, TableError> {
        let cells = BpfTable::<u32, V::Cell>::new(name, map)?;
        let mut owners = vec![0; cells.capacity()];
        // Ids ascend: until they have gone round once, places beyond the last are untouched.
        for (place, owner) in (0..next).zip(&mut owners) {
            if let Some((id, _)) = cells.get(&place)?.and_then(V::from_cell) {
                *owner = id.0;
            }
        }
        Ok(Self {
            cells,
            owners,
            value: PhantomData,
        })
    }

    fn place(&self, id: BackendId) -> u32 {
        // The size is that of a kernel map, which fits in u32.
        id.0 % self.owners.len() as u32
    }

    fn owner(&self, id: BackendId) -> u32 {
        self.owners
            .get(self.place(id) as usize)
            .copied()
            .unwrap_or_default()
    }

    fn own(&mut self, id: BackendId, owner: u32) {
        let place = self.place(id) as usize;
        if let Some(entry) = self.owners.get_mut(place) {
            *entry = owner;
        }
    }
}

impl<V: Placed> Table<BackendId, V> for PlaceTable<V> {
    fn name(&self) -> &'static str {
        self.cells.name()
    }

    fn write(&mut self, entries: &[(BackendId, V)]) -> Result<(), WriteError> {
        let mut placed = Vec::with_capacity(entries.len());
        let mut conflict = false;
        for (id, value) in entries {
            if !self.is_free(id) && self.owner(*id) != id.0 {
                conflict = true;
                break;
            }
            self.own(*id, id.0);
            placed.push((self.place(*id), value.to_cell(*id)));
        }
        self.cells.write(&placed)?;
        if conflict {
            return Err(WriteError::Full {
                map: self.cells.name(),
                capacity: self.capacity(),
                written: placed.len(),
            });
        }
        Ok(())
    }

    fn delete(&mut self, keys: &[BackendId]) -> Result<(), TableError> {
        let ours: Vec<BackendId> = keys
            .iter()
            .copied()
            .filter(|id| self.owner(*id) == id.0)
            .collect();
        let zeros: Vec<_> = ours
            .iter()
            .map(|id| (self.place(*id), V::Cell::default()))
            .collect();
        self.cells.write(&zeros).map_err(|e| match e {
            WriteError::Failed(e) => e,
            // An array has all its places from the start.
            WriteError::Full { .. } => TableError {
                map: self.cells.name(),
                operation: "clear",
                source: io::Error::other(e.to_string()),
            },
        })?;
        ours.into_iter().for_each(|id| self.own(id, 0));
        Ok(())
    }

    fn get(&self, key: &BackendId) -> Result<Option<V>, TableError> {
        let cell = self.cells.get(&self.place(*key))?;
        Ok(cell
            .and_then(V::from_cell)
            .filter(|(id, _)| id == key)
            .map(|(_, value)| value))
    }

    fn entries(&self) -> Result<Vec<(BackendId, V)>, TableError> {
        // Places are many more than entries: taken ones are read singly.
        let mut entries = Vec::new();
        for (place, owner) in (0..).zip(&self.owners) {
            if *owner != 0
                && let Some(cell) = self.cells.get(&place)?
            {
                entries.extend(V::from_cell(cell));
            }
        }
        Ok(entries)
    }

    fn capacity(&self) -> usize {
        self.cells.capacity()
    }

    fn is_free(&self, key: &BackendId) -> bool {
        self.owner(*key) == 0
    }
}
