//! Opens and loads the object over the pinned maps.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapHandle, OpenMapMut, OpenObject};

use super::skel::{WeftSkel, WeftSkelBuilder};
use super::{BpfError, PinDir, abi, accel, clock, size};
use crate::accel::{Acceleration, Mode};

/// Sizes that differ from those in `bpf/include/maps.h` and [`size::of_machine`]: map name to entries.
pub type MapSizes = BTreeMap<String, u32>;

const BACKENDS: &str = "backends";
const LOADS: &str = "backend_loads";

/// The loaded programs and their maps.
pub struct Loaded {
    pub(super) skel: WeftSkel<'static>,
    pub(super) pins: PinDir,
    /// Whether acceleration is among them.
    pub(super) accelerated: bool,
    /// What an operator should know: a pinned map that has another size than asked for.
    pub warnings: Vec<String>,
}

/// [`load_with`] no acceleration.
///
/// # Errors
/// As there.
pub fn load(pins: &PinDir, sizes: &MapSizes) -> Result<Loaded, BpfError> {
    load_with(pins, sizes, Acceleration::default(), true)
}

/// Loads all programs; maps that are pinned are taken over, the others are made and pinned.
///
/// # Errors
/// When the kernel refuses the object, or a size names no map.
pub fn load_with(
    pins: &PinDir,
    sizes: &MapSizes,
    acceleration: Acceleration,
    events: bool,
) -> Result<Loaded, BpfError> {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, |_, text| {
        tracing::debug!(target: "libbpf", "{}", text.trim_end());
    })));
    // Lives as long as the process, which loads once.
    let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
    let mut open = WeftSkelBuilder::default()
        .open(storage)
        .map_err(failed("opening the BPF object"))?;
    let (acceleration, hindrance) = acceleration.here();
    if !acceleration.is_on() {
        accel::retire(pins)?;
        accel::leave_out(open.open_object_mut())?;
    }
    let accelerated = acceleration.is_on();
    let mut warnings = prepare_maps(open.open_object_mut(), pins, sizes, accelerated)?;
    warnings.extend(hindrance);
    let backends = open.maps.backends.max_entries();
    if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
        settings.backend_capacity = backends;
        settings.tick_hz = clock::ticks_per_second();
        settings.node_netns = own_netns();
        settings.accel_bound = acceleration.bound.get();
        settings.accel_blocking = u32::from(acceleration.mode == Mode::Eager);
        settings.events_off = u32::from(!events);
        settings.node_cookie = abi::netns_cookie().unwrap_or(0);
    }
    let skel = open.load().map_err(failed("loading the BPF programs"))?;
    Ok(Loaded {
        skel,
        pins: pins.clone(),
        accelerated,
        warnings,
    })
}

/// Loads all programs with maps of their own and lets go of them; returns how many there are.
///
/// # Errors
/// When the kernel refuses.
pub fn trial_load() -> Result<usize, BpfError> {
    let mut storage = MaybeUninit::<OpenObject>::uninit();
    let skel = WeftSkelBuilder::default()
        .open(&mut storage)
        .map_err(failed("opening the BPF object"))?
        .load()
        .map_err(failed("loading the BPF programs"))?;
    Ok(skel.object().progs().count())
}

/// Number of this process's network namespace, as the kernel's programs see it; 0 if it cannot be told.
fn own_netns() -> u32 {
    let inode = fs::metadata("/proc/self/ns/net").map(|m| m.ino());
    inode.map_or(0, |inode| u32::try_from(inode).unwrap_or(0))
}

pub(super) fn failed(step: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> BpfError {
    let step = step.into();
    move |source| BpfError::Load { step, source }
}

fn prepare_maps(
    object: &mut OpenObject,
    pins: &PinDir,
    sizes: &MapSizes,
    accelerated: bool,
) -> Result<Vec<String>, BpfError> {
    if sizes.contains_key(LOADS) {
        return Err(BpfError::SizedTogether(LOADS, BACKENDS));
    }
    let mut unknown: Vec<&String> = sizes.keys().collect();
    let mut warnings = Vec::new();
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        // Constants belong to the programs: they are not kept.
        if name.contains('.') {
            continue;
        }
        unknown.retain(|u| **u != name);
        if accel::is_map(&name) && !accelerated {
            continue;
        }
        warnings.extend(prepare_map(
            &mut map,
            &name,
            pins,
            sizes.get(&name).copied(),
        )?);
    }
    match unknown.first() {
        Some(name) => Err(BpfError::UnknownMap((*name).clone())),
        None => Ok(warnings),
    }
}

fn prepare_map(
    map: &mut OpenMapMut<'_>,
    name: &str,
    pins: &PinDir,
    size: Option<u32>,
) -> Result<Option<String>, BpfError> {
    let path = pins.maps().join(name);
    let mut warning = None;
    let mut entries = size.or_else(|| size::of_machine(name));
    if path.exists() {
        let pinned = MapHandle::from_pinned_path(&path)
            .map_err(failed(format!("opening {}", path.display())))?
            .max_entries();
        if let Some(size) = size.filter(|size| *size != pinned) {
            warning = Some(format!(
                "map {name} keeps its {pinned} entries: {size} take effect after `weft cleanup`"
            ));
        }
        entries = Some(pinned);
    }
    if let Some(entries) = entries {
        map.set_max_entries(entries)
            .map_err(failed(format!("setting the size of map {name}")))?;
    }
    map.set_pin_path(&path)
        .map_err(failed(format!("pinning map {name}")))?;
    Ok(warning)
}

impl Loaded {
    /// A handle of its own to the map called `name`.
    ///
    /// # Errors
    /// When there is no such map, or no file descriptor left.
    pub fn map(&self, name: &str) -> Result<MapHandle, BpfError> {
        let map = self
            .skel
            .object()
            .maps()
            .find(|map| map.name() == name)
            .ok_or_else(|| BpfError::UnknownMap(name.to_owned()))?;
        MapHandle::try_from(&map).map_err(failed(format!("taking map {name}")))
    }
}
