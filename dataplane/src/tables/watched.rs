//! A table that fails on demand and is looked at after each operation, as the kernel would look: what engines are tested over.

use std::collections::VecDeque;

use super::memory::MemoryTable;
use super::{Table, TableError, WriteError};

/// For each operation to come, whether it fails and after how many entries.
#[derive(Debug, Default)]
pub(crate) struct Faults(VecDeque<Option<usize>>);

impl Faults {
    pub(crate) fn set(&mut self, faults: impl IntoIterator<Item = Option<usize>>) {
        self.0 = faults.into_iter().collect();
    }

    pub(crate) fn next(&mut self) -> Option<usize> {
        self.0.pop_front().flatten()
    }
}

/// Decides which operations fail, and looks at the tables after each.
pub(crate) trait Watcher: Clone + Send + 'static {
    /// Whether the next operation fails, and after how many entries.
    fn fault(&self) -> Option<usize>;

    /// It is done, wholly or in part.
    fn done(&self, operation: &str);
}

/// A table of which a [`Watcher`] knows.
pub(crate) fn watched<K, V>(
    watcher: &impl Watcher,
    table: &MemoryTable<K, V>,
) -> Box<dyn Table<K, V>>
where
    K: Ord + Copy + Send + 'static,
    V: Copy + Send + 'static,
{
    let (table, watcher) = (table.clone(), watcher.clone());
    Box::new(Watched { table, watcher })
}

struct Watched<K, V, W> {
    table: MemoryTable<K, V>,
    watcher: W,
}

fn refused(map: &'static str, operation: &'static str) -> TableError {
    TableError {
        map,
        operation,
        source: std::io::Error::other("injected"),
    }
}

impl<K: Ord + Copy + Send, V: Copy + Send, W: Watcher> Table<K, V> for Watched<K, V, W> {
    fn name(&self) -> &'static str {
        self.table.name()
    }

    fn write(&mut self, entries: &[(K, V)]) -> Result<(), WriteError> {
        let name = self.table.name();
        let result = match self.watcher.fault() {
            Some(after) => {
                let part = entries.get(..after.min(entries.len().saturating_sub(1)));
                self.table
                    .write(part.unwrap_or_default())
                    .and(Err(refused(name, "write").into()))
            }
            None => self.table.write(entries),
        };
        self.watcher.done(&format!("writing {name}"));
        result
    }

    fn delete(&mut self, keys: &[K]) -> Result<(), TableError> {
        let name = self.table.name();
        let result = match self.watcher.fault() {
            Some(after) => {
                let part = keys.get(..after.min(keys.len().saturating_sub(1)));
                self.table
                    .delete(part.unwrap_or_default())
                    .and(Err(refused(name, "delete")))
            }
            None => self.table.delete(keys),
        };
        self.watcher.done(&format!("deleting from {name}"));
        result
    }

    fn get(&self, key: &K) -> Result<Option<V>, TableError> {
        self.table.get(key)
    }

    fn entries(&self) -> Result<Vec<(K, V)>, TableError> {
        self.table.entries()
    }

    fn capacity(&self) -> usize {
        self.table.capacity()
    }
}
