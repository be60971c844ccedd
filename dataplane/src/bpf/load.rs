//! Loads the programs over the pinned maps.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use libbpf_rs::{MapCore, MapHandle, Object, OpenMapMut, OpenObject, ProgramMut};

use super::part::{self, Part};
use super::{BpfError, PinDir, accel, size, types};
use crate::accel::Acceleration;

/// Sizes that differ from those in `bpf/include/maps.h` and [`size::of_machine`]: map name to entries.
pub type MapSizes = BTreeMap<String, u32>;

const BACKENDS: &str = "backends";
const LOADS: &str = "backend_loads";

/// The loaded programs and their maps.
pub struct Loaded {
    /// Has all maps and no program.
    maps: Object,
    /// Have the programs, each some, over those maps.
    parts: Vec<Object>,
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
/// The time goes into the kernel's verifier, which works for one load call on one processor: the programs are loaded in parts, side
/// by side (`docs/adr/0038-programs-are-verified-side-by-side.md`).
///
/// # Errors
/// When the kernel refuses the object, or a size names no map. Maps that were made are gone again then.
pub fn load_with(
    pins: &PinDir,
    sizes: &MapSizes,
    acceleration: Acceleration,
    events: bool,
) -> Result<Loaded, BpfError> {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, |_, text| {
        tracing::debug!(target: "libbpf", "{}", text.trim_end());
    })));
    let (acceleration, hindrance) = acceleration.here();
    let accelerated = acceleration.is_on();
    if !accelerated {
        accel::retire(pins)?;
    }
    let mut object = part::open_maps(accelerated)?;
    let Prepared { made, mut warnings } = prepare_maps(&mut object, pins, sizes, accelerated)?;
    warnings.extend(hindrance);
    let maps = object.load().map_err(failed("making the BPF maps"))?;
    let parts = part::config(&maps, acceleration, events)
        .and_then(|config| load_parts(&maps, accelerated, config))
        .inspect_err(|_| {
            for pin in made {
                let _ = fs::remove_file(pin);
            }
        })?;
    Ok(Loaded {
        maps,
        parts,
        pins: pins.clone(),
        accelerated,
        warnings,
    })
}

/// Loads all programs, those of acceleration among them or not, with maps of their own and lets go of them; returns how many there are.
///
/// # Errors
/// When the kernel refuses.
pub fn trial_load(accelerated: bool) -> Result<usize, BpfError> {
    let object = part::open(accelerated)?;
    let count = object.progs().filter(|program| program.autoload()).count();
    object.load().map_err(failed("loading the BPF programs"))?;
    Ok(count)
}

fn load_parts(
    maps: &Object,
    accelerated: bool,
    config: types::config,
) -> Result<Vec<Object>, BpfError> {
    thread::scope(|scope| {
        let loads = Part::ALL.map(|part| {
            thread::Builder::new()
                .name("load".into())
                .spawn_scoped(scope, move || part.load(accelerated, config, maps))
        });
        loads
            .into_iter()
            .map(|load| {
                let load = load.map_err(BpfError::Thread)?;
                load.join().unwrap_or_else(|panic| resume_unwind(panic))
            })
            .collect()
    })
}

pub(super) fn failed(step: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> BpfError {
    let step = step.into();
    move |source| BpfError::Load { step, source }
}

/// What is known once the maps' sizes and pins are set.
struct Prepared {
    /// Pins that loading will make.
    made: Vec<PathBuf>,
    warnings: Vec<String>,
}

fn prepare_maps(
    object: &mut OpenObject,
    pins: &PinDir,
    sizes: &MapSizes,
    accelerated: bool,
) -> Result<Prepared, BpfError> {
    if sizes.contains_key(LOADS) {
        return Err(BpfError::SizedTogether(LOADS, BACKENDS));
    }
    let mut unknown: Vec<&String> = sizes.keys().collect();
    let mut prepared = Prepared {
        made: Vec::new(),
        warnings: Vec::new(),
    };
    for mut map in object.maps_mut() {
        if part::is_constant(&map) {
            continue;
        }
        let name = map.name().to_string_lossy().into_owned();
        unknown.retain(|u| **u != name);
        if accel::is_map(&name) && !accelerated {
            continue;
        }
        let pin = pins.maps().join(&name);
        let warning = prepare_map(&mut map, &name, &pin, sizes.get(&name).copied())?;
        prepared.warnings.extend(warning);
        if !pin.exists() {
            prepared.made.push(pin);
        }
    }
    match unknown.first() {
        Some(name) => Err(BpfError::UnknownMap((*name).clone())),
        None => Ok(prepared),
    }
}

fn prepare_map(
    map: &mut OpenMapMut<'_>,
    name: &str,
    pin: &Path,
    size: Option<u32>,
) -> Result<Option<String>, BpfError> {
    let mut warning = None;
    let mut entries = size.or_else(|| size::of_machine(name));
    if pin.exists() {
        let pinned = MapHandle::from_pinned_path(pin)
            .map_err(failed(format!("opening {}", pin.display())))?
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
    map.set_pin_path(pin)
        .map_err(failed(format!("pinning map {name}")))?;
    Ok(warning)
}

impl Loaded {
    /// A handle of its own to the map called `name`.
    ///
    /// # Errors
    /// When there is no such map, or no file descriptor left.
    pub fn map(&self, name: &str) -> Result<MapHandle, BpfError> {
        part::named(&self.maps, name)
    }

    /// The program called `name`, to be attached or run.
    pub fn program(&mut self, name: &str) -> Option<ProgramMut<'_>> {
        self.programs().find(|program| program.name() == name)
    }

    /// All programs.
    pub(super) fn programs(&self) -> impl Iterator<Item = ProgramMut<'_>> {
        let all = self.parts.iter().flat_map(Object::progs_mut);
        all.filter(|program| program.autoload())
    }
}
