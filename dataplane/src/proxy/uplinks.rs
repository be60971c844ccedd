//! Where connections for local pods come in that may be Envoy's: the uplinks, which lead to other nodes, and the loopback interface, to
//! which pods' interfaces turn what the node's own processes send.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::interfaces::snapshot::{Kernel, index};
use crate::interfaces::{InterfaceIndex, PodPrograms};

/// Interfaces come, go and change their index: they are looked at again so often.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const LOOPBACK: u32 = 1;

/// The programs of both, and where they belong.
pub struct Uplinks {
    kernel: Kernel,
    /// As configured; none: those of the default routes.
    names: Vec<String>,
    uplinks: Hook,
    own: Hook,
    /// What was last complained of.
    told: Option<String>,
}

/// Programs, and the interfaces that have them.
struct Hook {
    programs: Box<dyn PodPrograms>,
    on: BTreeSet<InterfaceIndex>,
}

impl Hook {
    /// What an earlier agent left counts as there, and has its programs replaced.
    fn new(mut programs: Box<dyn PodPrograms>) -> io::Result<(Self, BTreeSet<InterfaceIndex>)> {
        let inherited = programs.attached()?;
        let on = BTreeSet::new();
        Ok((Self { programs, on }, inherited))
    }

    fn settle(&mut self, wanted: &BTreeSet<InterfaceIndex>) -> io::Result<()> {
        for interface in wanted.difference(&self.on.clone()) {
            self.programs.attach(*interface)?;
            self.on.insert(*interface);
        }
        for interface in self.on.clone().difference(wanted) {
            self.programs.detach(*interface)?;
            self.on.remove(interface);
        }
        Ok(())
    }
}

/// The programs for [`Uplinks`], still on no interface.
pub struct UplinkPrograms {
    /// For the ingress of each uplink.
    pub uplinks: Box<dyn PodPrograms>,
    /// For the ingress of the loopback interface.
    pub own: Box<dyn PodPrograms>,
}

impl Uplinks {
    /// Takes what an earlier agent left off the interfaces that are no uplinks any more, and puts the programs on those that are:
    /// `names`, or those of the default routes if there are none.
    ///
    /// # Errors
    /// When netlink, or what is attached, cannot be read.
    pub fn new(programs: UplinkPrograms, names: Vec<String>) -> io::Result<Self> {
        let (uplinks, there) = Hook::new(programs.uplinks)?;
        let (own, _) = Hook::new(programs.own)?;
        let mut all = Self {
            kernel: Kernel::open()?,
            names,
            uplinks,
            own,
            told: None,
        };
        all.look();
        for old in there.difference(&all.uplinks.on.clone()) {
            all.uplinks.programs.detach(*old)?;
        }
        Ok(all)
    }

    /// Keeps them there until `drain` is cancelled; they stay then.
    ///
    /// # Errors
    /// When a look panicked.
    pub async fn run(mut self, drain: CancellationToken) -> Result<(), String> {
        loop {
            tokio::select! {
                () = drain.cancelled() => return Ok(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let look = tokio::task::spawn_blocking(move || {
                self.look();
                self
            });
            self = look.await.map_err(|e| e.to_string())?;
        }
    }

    /// What fails is tried again with the next look: until then connections from there are refused at the pod.
    fn look(&mut self) {
        let trouble = match self.try_look() {
            Ok(trouble) => trouble,
            Err(e) => Some(format!("uplinks cannot be looked at: {e}")),
        };
        if trouble != self.told {
            if let Some(trouble) = &trouble {
                tracing::warn!(
                    "{trouble}: connections from other nodes that a policy leaves to Envoy are refused"
                );
            }
            self.told = trouble;
        }
    }

    fn try_look(&mut self) -> io::Result<Option<String>> {
        let interfaces = self.kernel.interfaces()?;
        let wanted: BTreeSet<InterfaceIndex> = if self.names.is_empty() {
            self.kernel.default_routes()?
        } else {
            let named = interfaces
                .iter()
                .filter(|(_, i)| self.names.contains(&i.name));
            named.map(|(index, _)| *index).collect()
        };
        // Those that are gone took their programs with them.
        self.uplinks.on.retain(|i| interfaces.contains_key(i));
        self.uplinks.settle(&wanted)?;
        self.own.settle(&index(LOOPBACK).into_iter().collect())?;
        let missing = self
            .names
            .iter()
            .find(|name| interfaces.values().all(|i| i.name != **name));
        Ok(match (missing, wanted.is_empty()) {
            (Some(name), _) => Some(format!("there is no interface {name} (--uplink)")),
            (None, true) => Some("no default route names an uplink: give --uplink".to_owned()),
            (None, false) => None,
        })
    }
}

/// Takes the programs of an earlier agent off, which had an Envoy.
///
/// # Errors
/// When they cannot be listed or the kernel refuses.
pub fn remove_uplinks(programs: UplinkPrograms) -> io::Result<()> {
    for mut hook in [programs.uplinks, programs.own] {
        for interface in hook.attached()? {
            hook.detach(interface)?;
        }
    }
    Ok(())
}
