//! The programs on interfaces. On pods': `weft_from_pod` judges what comes from the pod, `weft_to_pod` what goes to it. On uplinks and on
//! the loopback interface: `weft_from_uplink` and `weft_to_uplink` translate what comes to services from outside, and the first, as
//! `weft_from_self`, hands over to Envoy what is for it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Program, ProgramMut};

use super::abi::TcxHook;
use super::clsact::Clsact;
use super::load::failed;
use super::tcx::TcxPins;
use super::{BpfError, BpfTable, Loaded};
use crate::accel::PodInterface;
use crate::doctor;
use crate::interfaces::{InterfaceIndex, PodPrograms};
use crate::routing::PodLink;
use crate::tables::Table;
use crate::uplinks::UplinkPrograms;

/// Programs that belong on the same interfaces, each with the side on which it stands.
struct Kind {
    /// Begins the names of their pins.
    pins: &'static str,
    programs: &'static [(&'static str, TcxHook)],
}

/// For the host's end of pods' pairs.
const POD: Kind = Kind {
    pins: "pod",
    programs: &[
        ("weft_from_pod", TcxHook::Ingress),
        ("weft_to_pod", TcxHook::Egress),
    ],
};
const UPLINK: Kind = Kind {
    pins: "uplink",
    programs: &[
        ("weft_from_uplink", TcxHook::Ingress),
        ("weft_to_uplink", TcxHook::Egress),
    ],
};
const OWN: Kind = Kind {
    pins: "self",
    programs: &[("weft_from_self", TcxHook::Ingress)],
};

/// What [`UPLINK`]'s first program calls, and the map by which it does.
const TRANSLATE: &str = "weft_translate";
const TRANSLATOR: &str = "translator";

/// The map that says whether the pods' programs are, or were since the agent began, on any interface.
const WATCHED: &str = "pods_watched";

/// How programs are put on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodHook {
    /// Links (Linux 6.6).
    Tcx,
    /// Filters of the clsact qdisc.
    Clsact,
}

impl PodHook {
    /// The best that this kernel has.
    #[must_use]
    pub fn of_this_kernel() -> Self {
        if doctor::has_tcx() {
            Self::Tcx
        } else {
            Self::Clsact
        }
    }
}

struct Judge {
    name: &'static str,
    hook: TcxHook,
    program: OwnedFd,
    id: u32,
}

struct OnInterfaces {
    names: Vec<&'static str>,
    judges: Vec<Judge>,
    way: Way,
}

enum Way {
    Tcx(TcxPins),
    Clsact(Clsact),
}

impl Loaded {
    /// The programs for pods' interfaces in this network namespace.
    ///
    /// # Errors
    /// When a program is missing, or netlink is.
    pub fn pod_programs(&mut self, hook: PodHook) -> Result<Box<dyn PodPrograms>, BpfError> {
        let mut pods = OnPods {
            watched: self.map(WATCHED)?,
            programs: self.on_interfaces(&POD, hook)?,
        };
        let adopted = pods.attached().map_err(BpfError::Interfaces)?;
        pods.tell(!adopted.is_empty())
            .map_err(BpfError::Interfaces)?;
        Ok(Box::new(pods))
    }

    /// The programs of uplinks and of the loopback interface.
    ///
    /// # Errors
    /// As [`Loaded::pod_programs`].
    pub fn uplink_programs(&mut self, hook: PodHook) -> Result<UplinkPrograms, BpfError> {
        self.set_translator()?;
        Ok(UplinkPrograms {
            uplinks: Box::new(self.on_interfaces(&UPLINK, hook)?),
            own: Box::new(self.on_interfaces(&OWN, hook)?),
            entries: Box::new(BpfTable::new("uplinks", self.map("uplinks")?)?),
        })
    }

    /// How frames to pods begin.
    ///
    /// # Errors
    /// When the map is missing or of another layout.
    pub fn pod_links(&self) -> Result<Box<dyn Table<PodInterface, PodLink>>, BpfError> {
        let links = BpfTable::new("pod_links", self.map("pod_links")?)?;
        Ok(Box::new(links))
    }

    /// Lets the uplinks' program go over to the one that translates.
    fn set_translator(&mut self) -> Result<(), BpfError> {
        let translate = self.judge(TRANSLATE, TcxHook::Ingress)?;
        let fd = translate.program.as_raw_fd().to_ne_bytes();
        self.map(TRANSLATOR)?
            .update(&0_u32.to_ne_bytes(), &fd, MapFlags::ANY)
            .map_err(failed(format!("putting {TRANSLATE} into {TRANSLATOR}")))
    }

    fn on_interfaces(&mut self, kind: &Kind, hook: PodHook) -> Result<OnInterfaces, BpfError> {
        let programs = kind.programs.iter();
        let judges = programs
            .map(|(name, hook)| self.judge(name, *hook))
            .collect::<Result<Vec<_>, _>>()?;
        let way = match hook {
            PodHook::Tcx => TcxPins::new(self.pins.links(), kind.pins).map(Way::Tcx),
            PodHook::Clsact => Clsact::new().map(Way::Clsact),
        };
        Ok(OnInterfaces {
            names: judges.iter().map(|judge| judge.name).collect(),
            judges,
            way: way.map_err(BpfError::Interfaces)?,
        })
    }

    fn judge(&mut self, name: &'static str, hook: TcxHook) -> Result<Judge, BpfError> {
        let program: ProgramMut<'_> = self.program(name).ok_or(BpfError::UnknownProgram(name))?;
        let fd = program.as_fd();
        Ok(Judge {
            name,
            hook,
            id: Program::id_from_fd(fd).map_err(failed(format!("identifying {name}")))?,
            program: fd.try_clone_to_owned().map_err(BpfError::Interfaces)?,
        })
    }
}

/// The pods' programs, and in [`WATCHED`] whether they are on any interface: sockets tell them of their connections only then.
struct OnPods {
    watched: MapHandle,
    programs: OnInterfaces,
}

impl OnPods {
    fn tell(&self, watched: bool) -> io::Result<()> {
        let (place, value) = (0_u32, u32::from(watched));
        self.watched
            .update(&place.to_ne_bytes(), &value.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)
    }
}

impl PodPrograms for OnPods {
    fn attach(&mut self, interface: InterfaceIndex) -> io::Result<()> {
        // Before the first packet is looked at.
        self.tell(true)?;
        self.programs.attach(interface)
    }

    fn detach(&mut self, interface: InterfaceIndex) -> io::Result<()> {
        self.programs.detach(interface)
    }

    fn attached(&mut self) -> io::Result<BTreeSet<InterfaceIndex>> {
        self.programs.attached()
    }

    fn hook(&self) -> &'static str {
        self.programs.hook()
    }
}

impl PodPrograms for OnInterfaces {
    fn attach(&mut self, interface: InterfaceIndex) -> io::Result<()> {
        for Judge {
            name,
            hook,
            program,
            id,
        } in &self.judges
        {
            match &mut self.way {
                Way::Tcx(pins) => pins.attach(name, program.as_fd(), *id, interface, *hook)?,
                Way::Clsact(tc) => tc.attach(name, program.as_fd(), *id, interface, *hook)?,
            }
        }
        Ok(())
    }

    fn detach(&mut self, interface: InterfaceIndex) -> io::Result<()> {
        match &mut self.way {
            Way::Tcx(pins) => {
                let mut names = self.names.iter();
                names.try_for_each(|name| pins.detach(name, interface))
            }
            Way::Clsact(tc) => tc.detach(&self.names, interface).map(drop),
        }
    }

    fn attached(&mut self) -> io::Result<BTreeSet<InterfaceIndex>> {
        match &mut self.way {
            Way::Tcx(pins) => pins.interfaces(),
            Way::Clsact(tc) => tc.with(&self.names),
        }
    }

    fn hook(&self) -> &'static str {
        match self.way {
            Way::Tcx(_) => "tcx",
            Way::Clsact(_) => "clsact",
        }
    }
}

/// Takes all filters of ours off all interfaces of this network namespace; returns how many there were.
pub(super) fn remove_filters() -> io::Result<usize> {
    let mut tc = Clsact::new()?;
    let mut removed = 0;
    let programs = [POD, UPLINK, OWN]
        .into_iter()
        .flat_map(|kind| kind.programs);
    let names: Vec<&str> = programs.map(|(name, _)| *name).collect();
    for interface in tc.with(&names)? {
        removed += tc.detach(&names, interface)?;
    }
    Ok(removed)
}
