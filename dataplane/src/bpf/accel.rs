//! The programs and maps of same-node acceleration: made only where it is wanted, and taken out where it was.

use std::fs;
use std::io::{self, Read};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, OpenObject, ProgramType};

use super::load::failed;
use super::{BpfError, BpfTable, Loaded, PinDir, PinError, types};
use crate::accel::{AcceleratedPod, LeavingSocket, PodInterface};
use crate::tables::Table;

/// Begins the names of all its maps.
const MAPS: &str = "accel_";
/// Begins the names of all its programs.
const PROGRAMS: &str = "weft_accel_";
const SETTINGS: &str = "accel_settings";
const MESSAGE: &str = "weft_accel_message";

pub(super) fn is_map(name: &str) -> bool {
    name.starts_with(MAPS)
}

pub(super) fn is_program(name: &str) -> bool {
    name.starts_with(PROGRAMS)
}

/// Leaves its programs and maps out of an object that is about to be loaded.
pub(super) fn leave_out(object: &mut OpenObject) -> Result<(), BpfError> {
    for mut program in object.progs_mut() {
        if is_program(&program.name().to_string_lossy()) {
            program.set_autoload(false);
        }
    }
    for mut map in object.maps_mut() {
        if is_map(&map.name().to_string_lossy()) {
            map.set_autocreate(false)
                .map_err(failed("leaving out acceleration"))?;
        }
    }
    Ok(())
}

/// Ends the acceleration of connections that live on: they go on over TCP with their next message. Their sockets keep what is in
/// their queues, as the kernel holds the maps for as long as any of them is open.
pub(super) fn stop(maps: &Path) {
    let Ok(settings) = MapHandle::from_pinned_path(maps.join(SETTINGS)) else {
        return;
    };
    let zero = vec![0; settings.value_size() as usize];
    if let Err(e) = settings.update(&0_u32.to_ne_bytes(), &zero, MapFlags::ANY) {
        tracing::warn!("connections that are accelerated stay so: {e}");
    }
}

/// Takes out what an earlier agent has made.
pub(super) fn retire(pins: &PinDir) -> Result<(), PinError> {
    stop(&pins.maps());
    for pin in named(&pins.links(), is_program)? {
        if let Ok(link) = Link::open(&pin) {
            let _ = link.detach();
        }
        fs::remove_file(&pin).map_err(PinError::io(&pin))?;
    }
    for pin in named(&pins.maps(), is_map)? {
        fs::remove_file(&pin).map_err(PinError::io(&pin))?;
    }
    Ok(())
}

fn named(dir: &Path, wanted: fn(&str) -> bool) -> Result<Vec<std::path::PathBuf>, PinError> {
    let entries = fs::read_dir(dir).map_err(PinError::io(dir))?;
    Ok(entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|n| wanted(&n.to_string_lossy()))
        })
        .collect())
}

/// Goes over the sockets of the network namespace that it is run in.
pub struct SocketIterator(Link);

impl SocketIterator {
    pub(crate) fn run(&self) -> io::Result<()> {
        let mut iter = Iter::new(&self.0).map_err(io::Error::other)?;
        io::copy(&mut iter.by_ref(), &mut io::sink()).map(drop)
    }
}

/// How often a socket was put into `accel_leaving`.
pub struct LeavingCount(MapHandle);

impl LeavingCount {
    /// Since acceleration was switched on, modulo 2^32.
    pub(crate) fn read(&self) -> io::Result<u32> {
        let value = self.0.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(io::Error::other)?.unwrap_or_default();
        let taken_out = value
            .get(offset_of!(types::accel_settings, taken_out)..)
            .and_then(|rest| rest.first_chunk());
        Ok(taken_out.map_or(0, |bytes| u32::from_ne_bytes(*bytes)))
    }
}

/// What the agent does while there is acceleration.
pub struct Accelerated {
    /// Who takes part.
    pub pods: Box<dyn Table<PodInterface, AcceleratedPod>>,
    /// Network namespaces within which connections are accelerated, by inode number.
    pub namespaces: Box<dyn Table<u32, u32>>,
    /// Finds who listened before.
    pub listeners: SocketIterator,
    /// Sockets to be taken out of the sockmap, by kernel address.
    pub leaving: Box<dyn Table<u64, LeavingSocket>>,
    /// Tells that there are more of them.
    pub leaving_count: LeavingCount,
    /// Takes them out when they have read everything.
    pub leave: SocketIterator,
}

impl Loaded {
    /// Has messages of sockets in `accel_sockets` judged, and pairs made from now on. `None`: there is no acceleration.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn accelerate(&mut self) -> Result<Option<Accelerated>, BpfError> {
        if !self.accelerated {
            return Ok(None);
        }
        let sockets = self.map("accel_sockets")?;
        let message = self
            .program(MESSAGE)
            .ok_or(BpfError::UnknownProgram(MESSAGE))?;
        debug_assert_eq!(message.prog_type(), ProgramType::SkMsg);
        message
            .attach_sockmap(sockets.as_fd().as_raw_fd())
            .map_err(failed(format!("attaching {MESSAGE}")))?;
        let on = [1_u32.to_ne_bytes(), [0; 4]].concat();
        self.map(SETTINGS)?
            .update(&0_u32.to_ne_bytes(), &on, MapFlags::ANY)
            .map_err(failed("switching acceleration on"))?;
        let pods = BpfTable::new("accel_pods", self.map("accel_pods")?)?;
        let namespaces = BpfTable::new("accel_namespaces", self.map("accel_namespaces")?)?;
        let leaving = BpfTable::new("accel_leaving", self.map("accel_leaving")?)?;
        Ok(Some(Accelerated {
            pods: Box::new(pods),
            namespaces: Box::new(namespaces),
            listeners: SocketIterator(self.iterator("weft_accel_listeners", None)?),
            leaving: Box::new(leaving),
            leaving_count: LeavingCount(self.map(SETTINGS)?),
            leave: SocketIterator(self.iterator("weft_accel_leave", None)?),
        }))
    }
}
