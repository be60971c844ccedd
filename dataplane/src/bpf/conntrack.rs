//! Maps `ct` and `ct_pending`, read while the kernel goes on writing them.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::abi::from_bytes;
use super::types;
use crate::conntrack::{Capacity, Connection, ConnectionSource};

/// Entries per system call.
const BATCH: u32 = 4096;

/// The tables of connections.
pub struct ConntrackMaps {
    established: MapHandle,
    pending: MapHandle,
    nat: MapHandle,
}

impl ConntrackMaps {
    pub(super) const fn new(established: MapHandle, pending: MapHandle, nat: MapHandle) -> Self {
        Self {
            established,
            pending,
            nat,
        }
    }
}

impl ConnectionSource for ConntrackMaps {
    fn each(&self, take: &mut dyn FnMut(Connection) -> bool) {
        for map in [&self.established, &self.pending] {
            // Only maps whose entries a batch cannot hold are refused here, and these are none.
            let Ok(entries) = map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY) else {
                continue;
            };
            let connections = entries.filter_map(|(key, value)| {
                let key = from_bytes::<types::flow_key>(&key)?;
                let flow = from_bytes::<types::flow>(&value)?;
                Connection::from_raw(&key, &flow)
            });
            for connection in connections {
                if !take(connection) {
                    return;
                }
            }
        }
    }
    fn capacity(&self) -> Capacity {
        Capacity {
            tracked: self.established.max_entries() as usize,
            nat: self.nat.max_entries() as usize,
        }
    }
}
