//! The object, opened to load some of its programs.

use std::fs;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use libbpf_rs::{
    MapCore, MapHandle, Object, ObjectBuilder, OpenMapMut, OpenObject, OpenProgramMut, ProgramType,
};

use super::load::failed;
use super::{BpfError, abi, accel, clock, types};
use crate::accel::{Acceleration, Mode};
use crate::doctor;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/weft.bpf.o"));
static MAPS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/weft-maps.bpf.o"));
const PLACES: &str = "connection_places";
/// `BPF_FIB_LOOKUP_SKIP_NEIGH` of linux/bpf.h, since Linux 6.3.
const SKIP_NEIGH: u32 = 4;
const CONFIG: &str = ".rodata.config";

/// What one thread loads. Each takes about half of the verifier's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Programs that stand on interfaces.
    Packets,
    /// Programs of sockets, iterators, what the agent runs itself, and what a program of an interface calls.
    Sockets,
}

/// On no interface: one judges a packet that is not there, one is called by `weft_from_uplink`.
const ELSEWHERE: [&str; 2] = ["weft_check", "weft_translate"];

fn is_elsewhere(program: &OpenProgramMut<'_>) -> bool {
    ELSEWHERE.into_iter().any(|name| program.name() == name)
}

impl Part {
    pub(super) const ALL: [Self; 2] = [Self::Packets, Self::Sockets];

    fn of(program: &OpenProgramMut<'_>) -> Self {
        match program.prog_type() {
            ProgramType::SchedCls if !is_elsewhere(program) => Self::Packets,
            _ => Self::Sockets,
        }
    }

    /// Loads its programs over the maps of `maps`.
    pub(super) fn load(
        self,
        accelerated: bool,
        config: types::config,
        maps: &Object,
    ) -> Result<Object, BpfError> {
        let mut object = open(accelerated)?;
        for mut program in object.progs_mut() {
            if Self::of(&program) != self {
                program.set_autoload(false);
            }
        }
        for mut map in object.maps_mut() {
            if is_constant(&map) {
                configure(&mut map, config)?;
            } else if map.autocreate() {
                share(&mut map, maps)?;
            }
        }
        object.load().map_err(failed("loading the BPF programs"))
    }
}

/// All of it, or all but acceleration.
pub(super) fn open(accelerated: bool) -> Result<OpenObject, BpfError> {
    open_bytes(OBJECT, accelerated)
}

/// Its maps and no program.
pub(super) fn open_maps(accelerated: bool) -> Result<OpenObject, BpfError> {
    open_bytes(MAPS, accelerated)
}

fn open_bytes(object: &[u8], accelerated: bool) -> Result<OpenObject, BpfError> {
    let mut object = ObjectBuilder::default()
        .name("weft")
        .and_then(|builder| builder.open_memory(object))
        .map_err(failed("opening the BPF object"))?;
    if !accelerated {
        accel::leave_out(&mut object)?;
    }
    Ok(object)
}

/// Constants belong to the programs of one object: they are neither kept nor shared.
pub(super) fn is_constant(map: &OpenMapMut<'_>) -> bool {
    map.name().to_string_lossy().contains('.')
}

/// What programs are told of the agent and its machine.
pub(super) fn config(
    maps: &Object,
    acceleration: Acceleration,
    events: bool,
) -> Result<types::config, BpfError> {
    Ok(types::config {
        backend_capacity: named(maps, "backends")?.max_entries(),
        connection_mask: connection_mask(maps)?,
        tick_hz: clock::ticks_per_second(),
        node_netns: own_netns(),
        node_cookie: abi::netns_cookie().unwrap_or(0),
        accel_bound: acceleration.bound.get(),
        accel_blocking: u32::from(acceleration.mode == Mode::Eager),
        events_off: u32::from(!events),
        fib_flags: if doctor::has_route_only_lookup() {
            SKIP_NEIGH
        } else {
            0
        },
    })
}

fn connection_mask(maps: &Object) -> Result<u32, BpfError> {
    let places = named(maps, PLACES)?.max_entries();
    if places.is_power_of_two() {
        Ok(places - 1)
    } else {
        Err(BpfError::NotPowerOfTwo(PLACES, places))
    }
}

/// A handle of its own to the map called `name`.
pub(super) fn named(object: &Object, name: &str) -> Result<MapHandle, BpfError> {
    let map = object
        .maps()
        .find(|map| map.name() == name)
        .ok_or_else(|| BpfError::UnknownMap(name.to_owned()))?;
    MapHandle::try_from(&map).map_err(failed(format!("taking map {name}")))
}

fn share(map: &mut OpenMapMut<'_>, maps: &Object) -> Result<(), BpfError> {
    let name = map.name().to_string_lossy().into_owned();
    map.reuse_fd(named(maps, &name)?.as_fd())
        .map_err(failed(format!("sharing map {name}")))
}

fn configure(map: &mut OpenMapMut<'_>, config: types::config) -> Result<(), BpfError> {
    if !map.name().to_string_lossy().ends_with(CONFIG) {
        return Ok(());
    }
    // The linker keeps each file's copy of the weak variable; programs read the first.
    let bytes = abi::as_bytes(std::slice::from_ref(&config));
    let value = map.initial_value_mut().unwrap_or_default();
    value
        .get_mut(offset_of!(types::rodata_config, config)..)
        .and_then(|value| value.get_mut(..bytes.len()))
        .ok_or(BpfError::NoConfig)?
        .copy_from_slice(bytes);
    Ok(())
}

/// Number of this process's network namespace, as the kernel's programs see it; 0 if it cannot be told.
fn own_netns() -> u32 {
    let inode = fs::metadata("/proc/self/ns/net").map(|m| m.ino());
    inode.map_or(0, |inode| u32::try_from(inode).unwrap_or(0))
}
