//! What the rest of the agent uses of a loaded object.

use std::os::fd::AsFd;

use libbpf_rs::skel::Skel;
use libbpf_rs::{IterOpts, Link, MapHandle, ProgramMut};

use super::load::failed;
use super::{BpfError, BpfTable, Counters, Loaded, Record};
use crate::close::{Closer, Destroyer, Finder};
use crate::doctor;
use crate::tables::{BackendId, Table, Tables};

impl Loaded {
    /// The service load balancer's tables.
    ///
    /// # Errors
    /// When a map is missing or of another layout.
    pub fn tables(&self) -> Result<Tables, BpfError> {
        Ok(Tables {
            services: self.table("services")?,
            slots: self.table("slots")?,
            backends: self.table("backends")?,
            loads: self.table("backend_loads")?,
            cursors: self.table("cursors")?,
            ids: self.table("ids")?,
        })
    }

    fn table<K, V>(&self, name: &'static str) -> Result<Box<dyn Table<K, V>>, BpfError>
    where
        K: Record + Copy + Send + 'static,
        V: Record + Copy + Send + 'static,
    {
        Ok(Box::new(BpfTable::new(name, self.map(name)?)?))
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
        let sockets = self.map("sockets")?;
        let finder = Finder::new(self.iterator("weft_find_closing", Some(&sockets))?);
        let destroyer = if doctor::has_sock_destroy() {
            Destroyer::Iterators {
                tcp: self.iterator("weft_close_tcp", None)?,
                udp: self.iterator("weft_close_udp", None)?,
            }
        } else {
            Destroyer::Netlink
        };
        let closing = self.table::<BackendId, u8>("closing")?;
        Closer::start(closing, finder, destroyer).map_err(BpfError::Thread)
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
