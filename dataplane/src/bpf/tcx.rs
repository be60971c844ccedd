//! tcx (Linux 6.6): programs of an interface as links, which are pinned and so outlive the agent.
//!
//! A pin is named `<kind>-<network namespace>-<interface>-<program>`, since an index means an interface only within its namespace.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libbpf_rs::Link;
use libbpf_rs::query::LinkTypeInfo;

use super::abi::{self, TcxHook};
use crate::interfaces::InterfaceIndex;
use crate::interfaces::snapshot::index;

/// Pins of one network namespace.
pub(super) struct TcxPins {
    dir: PathBuf,
    prefix: String,
}

impl TcxPins {
    /// Those of one kind below `dir`, of the network namespace of this process.
    pub(super) fn new(dir: PathBuf, kind: &str) -> io::Result<Self> {
        let netns = fs::metadata("/proc/thread-self/ns/net")?.ino();
        Ok(Self {
            dir,
            prefix: format!("{kind}-{netns}-"),
        })
    }

    /// Attaches, or replaces the program of the pinned link, or does nothing if it is this one.
    pub(super) fn attach(
        &self,
        name: &str,
        program: BorrowedFd<'_>,
        program_id: u32,
        interface: InterfaceIndex,
        hook: TcxHook,
    ) -> io::Result<()> {
        let pin = self.path(interface, name);
        if let Some(link) = open_on(&pin, interface) {
            let has = link.info().map_err(io::Error::other)?.prog_id;
            return if has == program_id {
                Ok(())
            } else {
                abi::update_link(link.as_fd(), program)
            };
        }
        // A link that lost its interface: the index was given to another one.
        remove(&pin)?;
        let link = abi::attach_tcx(program, interface, hook)?;
        abi::pin(link.as_fd(), &pin)
    }

    pub(super) fn detach(&self, name: &str, interface: InterfaceIndex) -> io::Result<()> {
        let pin = self.path(interface, name);
        if let Some(link) = open_on(&pin, interface) {
            // Also when somebody else holds the link open.
            link.detach().map_err(io::Error::other)?;
        }
        remove(&pin)
    }

    /// Interfaces with a pin, whether they are still there or not.
    pub(super) fn interfaces(&self) -> io::Result<BTreeSet<InterfaceIndex>> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix(&self.prefix))
                .and_then(|rest| rest.split('-').next())
                .and_then(|number| number.parse().ok())
                .and_then(index);
            found.extend(number);
        }
        Ok(found)
    }

    fn path(&self, interface: InterfaceIndex, name: &str) -> PathBuf {
        self.dir
            .join(format!("{}{}-{name}", self.prefix, interface.get()))
    }
}

/// The pinned link, if it is attached to this interface.
fn open_on(pin: &Path, interface: InterfaceIndex) -> Option<Link> {
    let link = Link::open(pin).ok()?;
    let here = link.info().is_ok_and(
        |info| matches!(info.info, LinkTypeInfo::Tcx(tcx) if tcx.ifindex == interface.get()),
    );
    here.then_some(link)
}

fn remove(pin: &Path) -> io::Result<()> {
    match fs::remove_file(pin) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
