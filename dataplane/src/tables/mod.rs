//! The kernel's tables, one typed file per map.
//!
//! Whoever decides what stands in them sees only [`Table`]: maps in the kernel ([`crate::bpf`]) or, in tests, [`memory`].

pub(crate) mod address;
mod backends;
mod ids;
mod keys;
mod limits;
pub mod memory;
pub mod mtls;
mod outside;
pub mod policy;
mod services;
mod slots;
mod usage;
#[cfg(test)]
pub(crate) mod watched;

pub use keys::{
    AllocatedIds, BackendEntry, BackendId, BackendLoad, Generation, ServiceEntry, ServiceId,
    ServiceKey, Slot, SlotKey,
};
pub use limits::{BackendHealth, ServiceFlags, ServiceSettings, ServiceState};
pub use outside::{LetIn, NatSettings, NodeSidePorts, SourceRangeKey, UplinkEntry};
pub use usage::MapUsage;

/// A map that the agent writes and reads.
///
/// Not atomic as a whole: order writes so that each step leaves a table that readers can use.
pub trait Table<K, V>: Send {
    /// Name of the map, for messages.
    fn name(&self) -> &'static str;

    /// Inserts or replaces all entries, or as many as go in.
    ///
    /// # Errors
    /// The first entry that did not go in and why; those before it are written.
    fn write(&mut self, entries: &[(K, V)]) -> Result<(), WriteError>;

    /// Deletes these keys. One that is not there is no error.
    ///
    /// # Errors
    /// When the kernel refuses for another reason.
    fn delete(&mut self, keys: &[K]) -> Result<(), TableError>;

    /// The value of one key.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn get(&self, key: &K) -> Result<Option<V>, TableError>;

    /// Everything in the table.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn entries(&self) -> Result<Vec<(K, V)>, TableError>;

    /// The most entries it can hold.
    fn capacity(&self) -> usize;

    /// Whether a new entry under `key` would stand in nobody's way. A table that cannot be read has no room.
    fn is_free(&self, key: &K) -> bool {
        matches!(self.get(key), Ok(None))
    }
}

/// A map operation that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("map {map}: {operation}: {source}")]
pub struct TableError {
    /// Name of the map.
    pub map: &'static str,
    /// What was tried.
    pub operation: &'static str,
    /// The kernel's answer.
    pub source: std::io::Error,
}

/// A write that stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// No room: `written` entries went in.
    #[error("map {map} is full ({capacity} entries): raise it with --map-size {map}=N")]
    Full {
        /// Name of the map.
        map: &'static str,
        /// Its size.
        capacity: usize,
        /// How many of the given entries are in.
        written: usize,
    },
    /// Any other refusal.
    #[error(transparent)]
    Failed(#[from] TableError),
}

/// All tables of the service load balancer.
pub struct Tables {
    /// What clients connect to.
    pub services: Box<dyn Table<ServiceKey, ServiceEntry>>,
    /// Each service's choices. A set, that is all slots of one service and generation, is written in one call, index by index
    /// from 0, and deleted as a whole.
    pub slots: Box<dyn Table<SlotKey, Slot>>,
    /// Where connections go.
    pub backends: Box<dyn Table<BackendId, BackendEntry>>,
    /// Connection counts, made by the agent and then written by the kernel.
    pub loads: Box<dyn Table<BackendId, BackendLoad>>,
    /// Round robin's position, made by the agent and then written by the kernel.
    pub cursors: Box<dyn Table<ServiceId, u64>>,
    /// Timeouts, limits and outlier ejection of services that have any. Written before the service's flags say so.
    pub settings: Box<dyn Table<ServiceId, ServiceSettings>>,
    /// Counts of services that have or had settings, made by the agent and then written by the kernel.
    pub states: Box<dyn Table<ServiceId, ServiceState>>,
    /// Backends that failed lately, written by the kernel alone.
    pub health: Box<dyn Table<BackendId, BackendHealth>>,
    /// Who may reach which service from outside.
    pub source_ranges: Box<dyn Table<SourceRangeKey, LetIn>>,
    /// One entry: whether any is for clients outside.
    pub nat: Box<dyn Table<u32, NatSettings>>,
    /// One entry: the next ids to give out, so that none is used again after a restart.
    pub ids: Box<dyn Table<u32, AllocatedIds>>,
}
