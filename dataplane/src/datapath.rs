//! The kernel side as the agent uses it: a trait, so that the agent is tested without one.

use std::path::PathBuf;
use std::sync::Arc;

use crate::accel::{Acceleration, PodInterface};
use crate::bpf::{
    self, Accelerated, Attachment, BpfError, Counters, Loaded, MapSizes, PinDir, PodHook,
};
use crate::check::CheckProgram;
use crate::close::{self, FlowCloser};
use crate::conntrack::{ConnectionSource, SweepProgram, Timeouts};
use crate::engine::Closer;
use crate::flow::EventSource;
use crate::interfaces::PodPrograms;
use crate::limits::Tender;
use crate::metrics::ProgramRuns;
use crate::outsiders::NetnsCookie;
use crate::proxy::ProxyState;
use crate::routing::PodLink;
use crate::tables::policy::PolicyTables;
use crate::tables::{BackendId, Table, Tables};
use crate::uplinks::UplinkPrograms;

/// Where counters are read from.
pub trait CounterSource: Send + Sync {
    /// Each counter's name and its value now; they never fall while the maps live.
    fn read(&self) -> Vec<(&'static str, u64)>;

    /// Runs of each program since it was loaded.
    fn programs(&self) -> Vec<ProgramRuns> {
        Vec::new()
    }
}

/// What the kernel tells about connections, and the programs that go over them.
pub struct Observation {
    /// What happens to connections.
    pub events: Box<dyn EventSource>,
    /// Connections that the kernel remembers.
    pub connections: Arc<dyn ConnectionSource>,
    /// Ages and judges all of them.
    pub sweep: Box<dyn SweepProgram>,
    /// Judges a packet that is not there.
    pub check: Arc<dyn CheckProgram>,
}

/// Programs and maps of one node.
///
/// Attached programs and their maps work on when this is dropped.
pub trait Datapath: Send {
    /// The tables, with whatever an earlier agent left in them.
    ///
    /// # Errors
    /// When a map cannot be opened.
    fn tables(&mut self) -> Result<Tables, BpfError>;

    /// The policy engine's tables, likewise.
    ///
    /// # Errors
    /// When a map cannot be opened.
    fn policy_tables(&mut self) -> Result<PolicyTables, BpfError>;

    /// Puts all programs on their hooks, in place of an earlier agent's. One that does not go there says so in its [`Attachment`].
    ///
    /// # Errors
    /// When there is nowhere to attach to.
    fn attach(&mut self) -> Result<Vec<Attachment>, BpfError>;

    /// Starts what closes connections.
    ///
    /// # Errors
    /// When it cannot be started.
    fn closer(&mut self) -> Result<Box<dyn Closer>, BpfError>;

    /// What closes connections that a policy forbids or that are too old.
    ///
    /// # Errors
    /// When it cannot be made.
    fn flow_closer(&mut self) -> Result<FlowCloser, BpfError>;

    /// Tells the kernel whether the node's Envoy serves.
    ///
    /// # Errors
    /// When the map is missing.
    fn proxy_switch(&mut self) -> Result<Box<dyn Table<u32, ProxyState>>, BpfError>;

    /// Tells the kernel which network namespaces are out of the mesh.
    ///
    /// # Errors
    /// When the map is missing.
    fn outsiders(&mut self) -> Result<Box<dyn Table<NetnsCookie, u32>>, BpfError>;

    /// The programs for pods' interfaces, still on none.
    ///
    /// # Errors
    /// When they are missing or interfaces cannot be reached.
    fn pod_programs(&mut self) -> Result<Box<dyn PodPrograms>, BpfError>;

    /// The programs for uplinks, likewise.
    ///
    /// # Errors
    /// As [`Datapath::pod_programs`].
    fn uplink_programs(&mut self) -> Result<UplinkPrograms, BpfError>;

    /// Tells the kernel how frames to pods begin.
    ///
    /// # Errors
    /// When the map is missing.
    fn pod_links(&mut self) -> Result<Box<dyn Table<PodInterface, PodLink>>, BpfError>;

    /// What takes ejected backends back.
    ///
    /// # Errors
    /// When it cannot be made.
    fn tender(&mut self) -> Result<Box<dyn Tender>, BpfError>;

    /// The kernel's counters.
    ///
    /// # Errors
    /// When the map is missing.
    fn counters(&self) -> Result<Box<dyn CounterSource>, BpfError>;

    /// Tells the kernel how long connections are remembered, and opens what it tells about them.
    ///
    /// # Errors
    /// When a map or program is missing, or the times cannot be written.
    fn observe(&mut self, timeouts: &Timeouts) -> Result<Observation, BpfError>;

    /// Starts same-node acceleration; `None` where there is none.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn accelerate(&mut self) -> Result<Option<Accelerated>, BpfError>;

    /// What an operator should know about the start.
    fn warnings(&self) -> Vec<String>;

    /// Removes what agents of other versions left in the kernel. For the time when this one's tables are complete: until then
    /// both serve.
    ///
    /// # Errors
    /// When a pin cannot be removed.
    fn retire_others(&self) -> Result<(), BpfError>;
}

/// The real one.
pub struct KernelDatapath {
    loaded: Loaded,
    pins: PinDir,
    cgroup: PathBuf,
}

impl KernelDatapath {
    /// Loads programs over the maps pinned below `bpffs`; `cgroup` is where they will be attached; without
    /// `events` the kernel tells of no connection.
    ///
    /// # Errors
    /// When there is no BPF file system or the kernel refuses.
    pub fn load(
        bpffs: &std::path::Path,
        cgroup: PathBuf,
        sizes: &MapSizes,
        acceleration: Acceleration,
        events: bool,
    ) -> Result<Self, BpfError> {
        let pins = PinDir::create(bpffs)?;
        Ok(Self {
            loaded: bpf::load_with(&pins, sizes, acceleration, events)?,
            pins,
            cgroup,
        })
    }
}

impl Datapath for KernelDatapath {
    fn tables(&mut self) -> Result<Tables, BpfError> {
        self.loaded.tables()
    }

    fn policy_tables(&mut self) -> Result<PolicyTables, BpfError> {
        self.loaded.policy_tables()
    }

    fn attach(&mut self) -> Result<Vec<Attachment>, BpfError> {
        bpf::attach(&mut self.loaded, &self.cgroup)
    }

    fn closer(&mut self) -> Result<Box<dyn Closer>, BpfError> {
        Ok(Box::new(self.loaded.closer()?))
    }

    fn flow_closer(&mut self) -> Result<FlowCloser, BpfError> {
        self.loaded.flow_closer()
    }

    fn proxy_switch(&mut self) -> Result<Box<dyn Table<u32, ProxyState>>, BpfError> {
        self.loaded.proxy_switch()
    }

    fn outsiders(&mut self) -> Result<Box<dyn Table<NetnsCookie, u32>>, BpfError> {
        self.loaded.outsiders()
    }

    fn pod_programs(&mut self) -> Result<Box<dyn PodPrograms>, BpfError> {
        self.loaded.pod_programs(PodHook::of_this_kernel())
    }

    fn uplink_programs(&mut self) -> Result<UplinkPrograms, BpfError> {
        self.loaded.uplink_programs(PodHook::of_this_kernel())
    }

    fn pod_links(&mut self) -> Result<Box<dyn Table<PodInterface, PodLink>>, BpfError> {
        self.loaded.pod_links()
    }

    fn tender(&mut self) -> Result<Box<dyn Tender>, BpfError> {
        self.loaded.tender()
    }

    fn counters(&self) -> Result<Box<dyn CounterSource>, BpfError> {
        Ok(Box::new(self.loaded.counters()?))
    }

    fn observe(&mut self, timeouts: &Timeouts) -> Result<Observation, BpfError> {
        self.loaded.observe(timeouts)
    }

    fn accelerate(&mut self) -> Result<Option<Accelerated>, BpfError> {
        self.loaded.accelerate()
    }

    fn warnings(&self) -> Vec<String> {
        self.loaded.warnings.clone()
    }

    fn retire_others(&self) -> Result<(), BpfError> {
        let removed = bpf::retire_others(&self.pins)?;
        if removed.links + removed.maps > 0 {
            tracing::info!(
                "removed {} programs and {} maps of another version",
                removed.links,
                removed.maps
            );
        }
        Ok(())
    }
}

impl Closer for close::Closer {
    fn close(&mut self, backends: Vec<BackendId>) {
        Self::close(self, backends);
    }
}

impl CounterSource for Counters {
    fn read(&self) -> Vec<(&'static str, u64)> {
        Self::read(self)
    }

    fn programs(&self) -> Vec<ProgramRuns> {
        Self::programs(self)
    }
}
