//! The search for interfaces on node n1 of a lab, without the rest of the agent.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libbpf_rs::Link;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_dataplane::bpf::{self, MapSizes, PinDir, PodHook};
use weft_dataplane::interfaces::{Interfaces, LocalInterfaces, Outlook, WantedPods};
use weft_lab::netns::Netns;
use weft_lab::{Lab, bpffs};

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// An attachment follows a pod within this time; emulated processors get more.
pub(crate) fn within() -> Duration {
    let emulated = std::env::var_os("WEFT_TEST_KERNEL").is_some();
    Duration::from_secs(if emulated { 20 } else { 1 })
}

/// The ways to attach programs that this kernel has.
pub(crate) fn hooks() -> Vec<PodHook> {
    match PodHook::of_this_kernel() {
        PodHook::Tcx => vec![PodHook::Tcx, PodHook::Clsact],
        PodHook::Clsact => vec![PodHook::Clsact],
    }
}

/// Tests on a busy machine wait for this long before they give up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running search.
pub(crate) struct Search {
    netns: Netns,
    bpffs: PathBuf,
    wanted: watch::Sender<WantedPods>,
    outlook: Outlook,
    drain: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Search {
    /// Loads the programs below the node's BPF file system, and searches in its network namespace.
    pub(crate) fn start(lab: &Lab, hook: PodHook) -> Result<Self> {
        let node = lab.node("n1")?;
        Self::start_in(node.netns().clone(), node.bpffs().to_owned(), hook)
    }

    fn start_in(netns: Netns, bpffs: PathBuf, hook: PodHook) -> Result<Self> {
        let (wanted, receiver) = watch::channel(WantedPods::default());
        let drain = CancellationToken::new();
        let (ready, started) = std::sync::mpsc::channel();
        let thread = std::thread::spawn({
            let (netns, bpffs, drain) = (netns.clone(), bpffs.clone(), drain.clone());
            move || {
                let inside = netns.run(|| -> Result {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()?;
                    let pins = PinDir::create(&bpffs)?;
                    let programs = bpf::load(&pins, &MapSizes::default())?.pod_programs(hook)?;
                    runtime.block_on(async {
                        let (task, outlook) = Interfaces::new(receiver, programs)?;
                        ready.send(outlook)?;
                        Ok(task.run(drain).await?)
                    })
                });
                inside.expect("the namespace").expect("the search");
            }
        });
        Ok(Self {
            netns,
            bpffs,
            wanted,
            outlook: started.recv()?,
            drain,
            thread: Some(thread),
        })
    }

    /// Ends the search and starts another one over the same pins.
    pub(crate) fn restart(self, hook: PodHook) -> Result<Self> {
        let (netns, bpffs) = (self.netns.clone(), self.bpffs.clone());
        drop(self);
        Self::start_in(netns, bpffs, hook)
    }

    /// Names the local pods.
    pub(crate) fn want(&self, pods: &[(&str, &[IpAddr])], complete: bool) {
        let addresses = pods.iter().flat_map(|(name, addresses)| {
            let name = format!("pod/default/{name}");
            addresses
                .iter()
                .map(move |address| (*address, name.clone()))
        });
        self.wanted.send_replace(WantedPods {
            addresses: addresses.collect(),
            complete,
            ..WantedPods::default()
        });
    }

    /// What the policy engine sees.
    pub(crate) fn now(&self) -> LocalInterfaces {
        self.outlook.interfaces.borrow().clone()
    }

    /// What `weft status` says.
    pub(crate) fn reasons(&self) -> Vec<String> {
        self.outlook.report.borrow().reasons(Instant::now())
    }

    /// Waits until `holds`.
    pub(crate) fn until(&self, holds: impl Fn(&LocalInterfaces) -> bool) -> Result {
        let end = Instant::now() + PATIENCE;
        while !holds(&self.now()) {
            if Instant::now() > end {
                return Err(format!("{:?}\n{:?}", self.now(), self.outlook.report).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits until all of the addresses lead to this interface.
    pub(crate) fn until_found(&self, addresses: &[IpAddr], interface: &str) -> Result {
        let index = self.index(interface)?;
        self.until(|now| {
            addresses
                .iter()
                .all(|a| now.pods.get(a).is_some_and(|i| i.get() == index))
        })
    }

    /// Waits until so many programs are on an interface.
    pub(crate) fn until_programs(&self, interface: &str, count: usize) -> Result {
        let end = Instant::now() + PATIENCE;
        while self.programs_on(interface)?.len() != count {
            if Instant::now() > end {
                return Err(format!("{:?}", self.programs_on(interface)?).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until so many links of interfaces are pinned.
    pub(crate) fn until_pins(&self, count: usize) -> Result {
        let end = Instant::now() + PATIENCE;
        while self.pins()?.len() != count {
            if Instant::now() > end {
                return Err(format!("{:?}", self.pins()?).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Link and program ids of the pinned links, by name.
    pub(crate) fn links(&self) -> Result<Vec<(u32, u32)>> {
        let pins = self.pins()?.into_iter();
        pins.map(|pin| {
            let info = Link::open(pin)?.info()?;
            Ok((info.id, info.prog_id))
        })
        .collect()
    }

    fn pins(&self) -> Result<Vec<PathBuf>> {
        let mut pins = bpffs::pins(&self.bpffs)?;
        pins.retain(|pin| pin.to_string_lossy().contains("/pod-"));
        Ok(pins)
    }

    /// Names of Weft's programs on an interface, by either hook.
    pub(crate) fn programs_on(&self, interface: &str) -> Result<Vec<String>> {
        let index = self.index(interface)?;
        let mut names = Vec::new();
        for (side, name) in [("ingress", "weft_from_pod"), ("egress", "weft_to_pod")] {
            let filters = self.tc(&format!("filter show dev {interface} {side}"))?;
            if filters.contains(&format!("{name}:[")) {
                names.push(name.to_owned());
            }
        }
        for (pin, link) in self.pins()?.into_iter().zip(self.links_info()?) {
            if link == index {
                let name = pin
                    .to_string_lossy()
                    .rsplit('-')
                    .next()
                    .map(ToOwned::to_owned);
                names.extend(name);
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn links_info(&self) -> Result<Vec<u32>> {
        let pins = self.pins()?.into_iter();
        pins.map(|pin| {
            let info = Link::open(pin)?.info()?.info;
            Ok(match info {
                libbpf_rs::query::LinkTypeInfo::Tcx(tcx) => tcx.ifindex,
                _ => 0,
            })
        })
        .collect()
    }

    /// Runs `tc` in the namespace.
    pub(crate) fn tc(&self, line: &str) -> Result<String> {
        self.run("tc", &line.split(' ').collect::<Vec<_>>())
    }

    fn index(&self, interface: &str) -> Result<u32> {
        let shown = self.run("ip", &["-o", "link", "show", "dev", interface])?;
        let index = shown.split(':').next().unwrap_or_default();
        Ok(index.parse()?)
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let output = self
            .netns
            .run(|| Command::new(program).args(args).output())??;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        self.drain.cancel();
        let ended = self.thread.take().map(JoinHandle::join);
        // A second panic would end the test program without a word.
        if !std::thread::panicking() {
            assert!(!matches!(ended, Some(Err(_))), "the search panicked");
        }
    }
}
