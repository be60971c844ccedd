//! A kernel map as a [`Table`].

use std::io;
use std::marker::PhantomData;
use std::thread;
use std::time::Duration;

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};

use super::abi::{Record, as_bytes, from_bytes};
use crate::tables::{Table, TableError, WriteError};

/// Entries per batch system call: bounds how long one call keeps a CPU.
const BATCH: usize = 4096;
/// The kernel's allocator for map elements refills in the background; a burst may find it empty.
const NO_MEMORY_RETRIES: u32 = 50;
const NO_MEMORY_PAUSE: Duration = Duration::from_millis(1);

/// A hash or array map with typed keys and values.
pub struct BpfTable<K, V> {
    map: MapHandle,
    name: &'static str,
    types: PhantomData<fn(K, V)>,
}

impl<K: Record, V: Record> BpfTable<K, V> {
    /// The table over `map`, whose key and value sizes are those of `K` and `V`.
    ///
    /// # Errors
    /// When they are not.
    pub fn new(name: &'static str, map: MapHandle) -> Result<Self, TableError> {
        if map.key_size() as usize != size_of::<K::Raw>()
            || map.value_size() as usize != size_of::<V::Raw>()
        {
            return Err(TableError {
                map: name,
                operation: "open",
                source: io::Error::new(io::ErrorKind::InvalidData, "entry size differs"),
            });
        }
        Ok(Self {
            map,
            name,
            types: PhantomData,
        })
    }

    fn error(&self, operation: &'static str, error: &libbpf_rs::Error) -> TableError {
        TableError {
            map: self.name,
            operation,
            source: io::Error::new(io_kind(error.kind()), error.to_string()),
        }
    }

    /// One entry after the other; says exactly which one did not go in.
    fn write_singly(
        &self,
        keys: &[K::Raw],
        values: &[V::Raw],
        before: usize,
    ) -> Result<(), WriteError> {
        for (i, (key, value)) in keys.iter().zip(values).enumerate() {
            let (key, value) = (
                as_bytes(std::slice::from_ref(key)),
                as_bytes(std::slice::from_ref(value)),
            );
            let mut attempts = 0;
            while let Err(e) = self.map.update(key, value, MapFlags::ANY) {
                match e.kind() {
                    ErrorKind::TooBig => {
                        return Err(WriteError::Full {
                            map: self.name,
                            capacity: self.map.max_entries() as usize,
                            written: before + i,
                        });
                    }
                    ErrorKind::OutOfMemory if attempts < NO_MEMORY_RETRIES => {
                        attempts += 1;
                        thread::sleep(NO_MEMORY_PAUSE);
                    }
                    _ => return Err(self.error("write", &e).into()),
                }
            }
        }
        Ok(())
    }

    fn read(&self, batch: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<(K, V)> {
        batch
            .filter_map(|(k, v)| {
                Some((K::from_raw(from_bytes(&k)?)?, V::from_raw(from_bytes(&v)?)?))
            })
            .collect()
    }
}

impl<K: Record + Copy + Send, V: Record + Copy + Send> Table<K, V> for BpfTable<K, V> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn write(&mut self, entries: &[(K, V)]) -> Result<(), WriteError> {
        for (i, chunk) in entries.chunks(BATCH).enumerate() {
            let keys: Vec<K::Raw> = chunk.iter().map(|(k, _)| k.to_raw()).collect();
            let values: Vec<V::Raw> = chunk.iter().map(|(_, v)| v.to_raw()).collect();
            let batch = self.map.update_batch(
                as_bytes(&keys),
                as_bytes(&values),
                chunk.len() as u32,
                MapFlags::ANY,
                MapFlags::ANY,
            );
            if batch.is_err() {
                // Writing an entry twice does no harm, and only this way says where it stopped.
                self.write_singly(&keys, &values, i * BATCH)?;
            }
        }
        Ok(())
    }

    fn delete(&mut self, keys: &[K]) -> Result<(), TableError> {
        for chunk in keys.chunks(BATCH) {
            let raw: Vec<K::Raw> = chunk.iter().map(Record::to_raw).collect();
            let batch = self.map.delete_batch(
                as_bytes(&raw),
                chunk.len() as u32,
                MapFlags::ANY,
                MapFlags::ANY,
            );
            if batch.is_ok() {
                continue;
            }
            // A batch stops at the first key that is not there.
            for key in &raw {
                match self.map.delete(as_bytes(std::slice::from_ref(key))) {
                    Err(e) if e.kind() != ErrorKind::NotFound => {
                        return Err(self.error("delete", &e));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn get(&self, key: &K) -> Result<Option<V>, TableError> {
        let raw = key.to_raw();
        let bytes = self
            .map
            .lookup(as_bytes(std::slice::from_ref(&raw)), MapFlags::ANY)
            .map_err(|e| self.error("look up", &e))?;
        Ok(bytes.and_then(|b| V::from_raw(from_bytes(&b)?)))
    }

    fn entries(&self) -> Result<Vec<(K, V)>, TableError> {
        let batch = self
            .map
            .lookup_batch(BATCH as u32, MapFlags::ANY, MapFlags::ANY)
            .map_err(|e| self.error("read", &e))?;
        let entries = self.read(batch);
        // The batch reader cannot tell an error from the end where a full batch came last.
        if entries.is_empty() || !entries.len().is_multiple_of(BATCH) {
            return Ok(entries);
        }
        Ok(self.read(self.map.keys().filter_map(|key| {
            let value = self.map.lookup(&key, MapFlags::ANY).ok()??;
            Some((key, value))
        })))
    }

    fn capacity(&self) -> usize {
        self.map.max_entries() as usize
    }
}

fn io_kind(kind: ErrorKind) -> io::ErrorKind {
    match kind {
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    }
}
