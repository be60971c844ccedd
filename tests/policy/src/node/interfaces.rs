//! Interfaces for pods to be behind.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use weft_dataplane::interfaces::InterfaceIndex;
use weft_lab::netns::Netns;

use crate::generate::MAX_LOCAL_PODS;

/// Some interfaces in a network namespace of their own, and whose they are.
#[derive(Debug)]
pub struct Interfaces {
    all: Vec<InterfaceIndex>,
    /// By workload.
    owners: BTreeMap<String, InterfaceIndex>,
    assigned: BTreeMap<IpAddr, InterfaceIndex>,
}

static NAMESPACES: AtomicU32 = AtomicU32::new(0);

impl Interfaces {
    /// Runs `f` on a thread in a namespace with enough of them, which ends with the thread, however that ends.
    ///
    /// # Errors
    /// When the namespace cannot be made, and what `f` returns.
    pub fn with<T: Send>(f: impl FnOnce(Self) -> Result<T> + Send) -> Result<T> {
        let number = NAMESPACES.fetch_add(1, Ordering::Relaxed);
        let netns = Netns::create(format!("weft-policy-{}-{number}", std::process::id()))?;
        let inside = netns.run(|| {
            let made = Self::make(&netns);
            // The thread keeps it: nothing is left behind, even by a killed test.
            netns.remove()?;
            f(made?)
        });
        inside?
    }

    fn make(netns: &Netns) -> Result<Self> {
        let pairs = MAX_LOCAL_PODS.div_ceil(2);
        let lines = (0..pairs).map(|n| format!("link add a{n} type veth peer name b{n}\n"));
        netns.ip(&lines.collect::<String>())?;
        let ends = (0..pairs).flat_map(|n| [format!("a{n}"), format!("b{n}")]);
        Ok(Self {
            all: ends.map(|name| index(&name)).collect::<Result<_>>()?,
            owners: BTreeMap::new(),
            assigned: BTreeMap::new(),
        })
    }

    /// Gives each workload one interface for all its addresses, and lets it keep it. What others leave is given away again.
    ///
    /// # Errors
    /// When there are not enough of them.
    pub fn assign(&mut self, wanted: &BTreeMap<IpAddr, String>) -> Result<()> {
        self.owners
            .retain(|owner, _| wanted.values().any(|w| w == owner));
        self.assigned.clear();
        for (address, workload) in wanted {
            let index = match self.owners.get(workload) {
                Some(index) => *index,
                None => {
                    let taken = |index: &InterfaceIndex| self.owners.values().any(|i| i == index);
                    let free = self.all.iter().find(|index| !taken(index));
                    let index = *free.context("more local pods than interfaces")?;
                    self.owners.insert(workload.clone(), index);
                    index
                }
            };
            self.assigned.insert(*address, index);
        }
        Ok(())
    }

    /// The interface that leads to each address.
    #[must_use]
    pub const fn assigned(&self) -> &BTreeMap<IpAddr, InterfaceIndex> {
        &self.assigned
    }
}

/// `/sys/class/net` is that of the namespace it was mounted in, so `ip` is asked.
fn index(name: &str) -> Result<InterfaceIndex> {
    let output = std::process::Command::new("ip")
        .args(["-o", "link", "show", name])
        .output()
        .context("running ip")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.split(':').next().and_then(|n| n.trim().parse().ok());
    number
        .and_then(NonZeroU32::new)
        .map(InterfaceIndex)
        .with_context(|| format!("no interface {name}: {text}"))
}
