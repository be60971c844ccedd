//! What the rest of the agent uses of a loaded object.

use std::os::fd::AsFd;

use libbpf_rs::skel::Skel;
use libbpf_rs::{IterOpts, Link, MapHandle, ProgramMut};

use super::array::PlaceTable;
use super::load::failed;
use super::slots::service_tables;
use super::{BpfError, BpfTable, Counters, Loaded};
use crate::close::{Closer, Destroyer, Finder};
use crate::doctor;
use crate::tables::{AllocatedIds, BackendEntry, BackendId, BackendLoad, Table, Tables};

/// The service load balancer's tables over the maps that `map` gives by name.
///
/// # Errors
/// When a map is missing, of another layout, or cannot be read.
pub fn open_tables(
    map: impl Fn(&'static str) -> Result<MapHandle, BpfError>,
) -> Result<Tables, BpfError> {
    let ids = BpfTable::<u32, AllocatedIds>::new("ids", map("ids")?)?;
    let next = ids.get(&0)?.map_or(0, |ids| ids.next_backend);
    let (services, slots) = service_tables(map("services")?, map("slots")?)?;
    let backends = PlaceTable::<BackendEntry>::new("backends", map("backends")?, next)?;
    let loads = PlaceTable::<BackendLoad>::new("backend_loads", map("backend_loads")?, next)?;
    Ok(Tables {
        services: Box::new(services),
        slots: Box::new(slots),
        backends: Box::new(backends),
        loads: Box::new(loads),
        cursors: Box::new(BpfTable::new("cursors", map("cursors")?)?),
        ids: Box::new(ids),
    })
}

impl Loaded {
    /// The service load balancer's tables.
    ///
    /// # Errors
    /// When a map is missing, of another layout, or cannot be read.
    pub fn tables(&self) -> Result<Tables, BpfError> {
        open_tables(|name| self.map(name))
    }

    /// The kernel's counters.
    ///
    /// # Errors
    /// When the map is missing.
    pub fn counters(&self) -> Result<Counters, BpfError> {
        Ok(Counters::new(self.map("counters")?))
    }

    /// Starts the thread that closes connections.
    ///
    /// # Errors
    /// When an iterator cannot be made or the thread cannot be started.
    pub fn closer(&mut self) -> Result<Closer, BpfError> {
        let (connections, sockets) = (self.map("connections")?, self.map("sockets")?);
        let finder = Finder::new([
            self.iterator("weft_find_tcp", Some(&connections))?,
            self.iterator("weft_find_udp", Some(&sockets))?,
        ]);
        let destroyer = if doctor::has_sock_destroy() {
            Destroyer::Iterators {
                tcp: self.iterator("weft_close_tcp", None)?,
                udp: self.iterator("weft_close_udp", None)?,
            }
        } else {
            Destroyer::Netlink
        };
        let closing = BpfTable::<BackendId, u8>::new("closing", self.map("closing")?)?;
        Closer::start(Box::new(closing), finder, destroyer).map_err(BpfError::Thread)
    }

    fn iterator(&mut self, name: &str, map: Option<&MapHandle>) -> Result<Link, BpfError> {
        let program = self
            .program(name)
            .ok_or_else(|| BpfError::UnknownMap(name.to_owned()))?;
        match map {
            Some(map) => program.attach_iter(map.as_fd()),
            None => program.attach_iter_with_opts(IterOpts::None),
        }
        .map_err(failed(format!("making the iterator {name}")))
    }

    fn program(&mut self, name: &str) -> Option<ProgramMut<'_>> {
        self.skel
            .object_mut()
            .progs_mut()
            .find(|program| program.name() == name)
    }
}
