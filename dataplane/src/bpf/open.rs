//! What the rest of the agent uses of a loaded object.

use std::os::fd::AsFd;
use std::sync::Arc;

use libbpf_rs::{IterOpts, Link, MapHandle};

use super::array::PlaceTable;
use super::load::failed;
use super::programs::Programs;
use super::slots::service_tables;
use super::{BpfError, BpfTable, ConntrackMaps, Counters, Events, Loaded};
use crate::close::{Closer, ClosingFlow, Destroyer, Finder, FlowCloser};
use crate::conntrack::Timeouts;
use crate::datapath::Observation;
use crate::doctor;
use crate::limits::{HealthIterator, Tender};
use crate::outsiders::NetnsCookie;
use crate::proxy::ProxyState;
use crate::tables::mtls::MtlsTables;
use crate::tables::policy::PolicyTables;
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
        settings: Box::new(BpfTable::new("service_settings", map("service_settings")?)?),
        states: Box::new(BpfTable::new("service_states", map("service_states")?)?),
        health: Box::new(BpfTable::new("backend_health", map("backend_health")?)?),
        source_ranges: Box::new(BpfTable::new("source_ranges", map("source_ranges")?)?),
        nat: Box::new(BpfTable::new("nat_settings", map("nat_settings")?)?),
        ids: Box::new(ids),
    })
}

/// The policy engine's tables over the maps that `map` gives by name.
///
/// # Errors
/// When a map is missing or of another layout.
pub fn open_policy_tables(
    map: impl Fn(&'static str) -> Result<MapHandle, BpfError>,
) -> Result<PolicyTables, BpfError> {
    let cidrs = BpfTable::new("cidr_identities", map("cidr_identities")?)?;
    let workloads = BpfTable::new("local_workloads", map("local_workloads")?)?;
    Ok(PolicyTables {
        identities: Box::new(BpfTable::new("identities", map("identities")?)?),
        cidr_identities: Box::new(cidrs),
        local_workloads: Box::new(workloads),
        peer_rules: Box::new(BpfTable::new("peer_rules", map("peer_rules")?)?),
        rules: Box::new(BpfTable::new("rules", map("rules")?)?),
        settings: Box::new(BpfTable::new("policy_settings", map("policy_settings")?)?),
        mtls: MtlsTables {
            modes: Box::new(BpfTable::new("mtls_modes", map("mtls_modes")?)?),
            state: Box::new(BpfTable::new("mtls_state", map("mtls_state")?)?),
        },
    })
}

impl Loaded {
    /// The policy engine's tables.
    ///
    /// # Errors
    /// When a map is missing or of another layout.
    pub fn policy_tables(&self) -> Result<PolicyTables, BpfError> {
        open_policy_tables(|name| self.map(name))
    }

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
        let programs = Programs::of(self);
        Ok(Counters::new(self.map("counters")?, programs))
    }

    /// Writes how long connections are remembered, and opens what the kernel tells about them.
    ///
    /// # Errors
    /// When a map or program is missing, or the times cannot be written.
    pub fn observe(&self, timeouts: &Timeouts) -> Result<Observation, BpfError> {
        let mut settings = BpfTable::<u32, Timeouts>::new("ct_settings", self.map("ct_settings")?)?;
        settings.write(&[(0, *timeouts)])?;
        Ok(Observation {
            events: Box::new(Events::new(self.map("events")?)),
            connections: Arc::new(ConntrackMaps::new(
                self.map("ct")?,
                self.map("ct_pending")?,
                self.map("nat")?,
            )),
            sweep: Box::new(self.sweep()?),
            check: Arc::new(self.check()?),
        })
    }

    /// Starts the thread that closes connections.
    ///
    /// # Errors
    /// When an iterator cannot be made or the thread cannot be started.
    pub fn closer(&mut self) -> Result<Closer, BpfError> {
        let finder = Finder::new([
            self.iterator_over("connection_places", "weft_find_tcp")?,
            self.iterator_over("connections", "weft_find_tcp")?,
            self.iterator_over("sockets", "weft_find_udp")?,
        ]);
        let destroyer = self.destroyer("weft_close_tcp", "weft_close_udp")?;
        let closing = BpfTable::<BackendId, u8>::new("closing", self.map("closing")?)?;
        Closer::start(Box::new(closing), finder, destroyer).map_err(BpfError::Thread)
    }

    /// What closes connections by their addresses.
    ///
    /// # Errors
    /// When an iterator cannot be made or a map is missing.
    pub fn flow_closer(&mut self) -> Result<FlowCloser, BpfError> {
        let destroyer = self.destroyer("weft_close_flows_tcp", "weft_close_flows_udp")?;
        let flows = BpfTable::<ClosingFlow, u32>::new("closing_flows", self.map("closing_flows")?)?;
        FlowCloser::new(Box::new(flows), destroyer).map_err(BpfError::Interfaces)
    }

    /// Tells the kernel whether the node's Envoy serves.
    ///
    /// # Errors
    /// When the map is missing or of another layout.
    pub fn proxy_switch(&self) -> Result<Box<dyn Table<u32, ProxyState>>, BpfError> {
        let switch = BpfTable::<u32, ProxyState>::new("proxy_state", self.map("proxy_state")?)?;
        Ok(Box::new(switch))
    }

    /// Network namespaces of pods that are out of the mesh.
    ///
    /// # Errors
    /// When the map is missing or of another layout.
    pub fn outsiders(&self) -> Result<Box<dyn Table<NetnsCookie, u32>>, BpfError> {
        let outsiders = BpfTable::new("outsiders", self.map("outsiders")?)?;
        Ok(Box::new(outsiders))
    }

    fn destroyer(&mut self, tcp: &str, udp: &str) -> Result<Destroyer, BpfError> {
        if !doctor::has_sock_destroy() {
            return Ok(Destroyer::Netlink);
        }
        Ok(Destroyer::Iterators {
            tcp: self.iterator(tcp, None)?,
            udp: self.iterator(udp, None)?,
        })
    }

    /// What takes ejected backends back.
    ///
    /// # Errors
    /// When the iterator cannot be made.
    pub fn tender(&mut self) -> Result<Box<dyn Tender>, BpfError> {
        let link = self.iterator_over("backend_health", "weft_tend")?;
        Ok(Box::new(HealthIterator(link)))
    }

    fn iterator_over(&mut self, map: &str, name: &str) -> Result<Link, BpfError> {
        let map = self.map(map)?;
        self.iterator(name, Some(&map))
    }

    pub(super) fn iterator(
        &mut self,
        name: &str,
        map: Option<&MapHandle>,
    ) -> Result<Link, BpfError> {
        let program = self
            .program(name)
            .ok_or_else(|| BpfError::UnknownMap(name.to_owned()))?;
        match map {
            Some(map) => program.attach_iter(map.as_fd()),
            None => program.attach_iter_with_opts(IterOpts::None),
        }
        .map_err(failed(format!("making the iterator {name}")))
    }
}
