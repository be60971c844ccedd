//! Where packets of other nodes and of clients outside come in, and go: the uplinks. And the loopback interface, to which pods' interfaces
//! turn what the node's own processes send to Envoy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::interfaces::snapshot::{Interface, Kernel, Kind, Outlet, index};
use crate::interfaces::{InterfaceIndex, PodPrograms};
use crate::routing::{Choice, HostRouting, RoutedBy};
use crate::tables::{NodeSidePorts, Table, UplinkEntry};

/// Interfaces come, go and change their index and addresses: they are looked at again so often.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const LOOPBACK: u32 = 1;
/// Ports that the kernel gives to sockets of this network namespace, and what it has there by default.
const LOCAL_PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const DEFAULT_LOCAL_PORTS: (u16, u16) = (32_768, 60_999);
/// Of an Ethernet frame, without VLAN tags.
const ETHERNET_HEADER: u8 = 14;

/// The programs of both, and where they belong.
pub struct Uplinks {
    kernel: Kernel,
    /// As configured; none: see [`Uplinks::new`].
    names: Vec<String>,
    uplinks: Hook,
    own: Option<Hook>,
    routing: Choice,
    report: watch::Sender<RoutedBy>,
    entries: Box<dyn Table<u32, UplinkEntry>>,
    written: BTreeMap<u32, UplinkEntry>,
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
    /// For both directions of each uplink.
    pub uplinks: Box<dyn PodPrograms>,
    /// For the ingress of the loopback interface.
    pub own: Box<dyn PodPrograms>,
    /// What they know of each uplink.
    pub entries: Box<dyn Table<u32, UplinkEntry>>,
}

/// Which interfaces are uplinks.
#[derive(Clone, Debug)]
pub struct UplinkChoice {
    /// Those of these names; none: all that a route to a network leads to, but bridges that no default route leads to.
    pub names: Vec<String>,
    /// This node has an Envoy.
    pub has_proxy: bool,
    /// What is to carry pods' packets there.
    pub routing: HostRouting,
    /// Told what does.
    pub report: watch::Sender<RoutedBy>,
}

impl Uplinks {
    /// Takes what an earlier agent left off the interfaces that are no uplinks any more, and puts the programs on those that are.
    ///
    /// # Errors
    /// When netlink, or what is attached, cannot be read.
    pub fn new(programs: UplinkPrograms, choice: UplinkChoice) -> io::Result<Self> {
        let (uplinks, there) = Hook::new(programs.uplinks)?;
        let (mut own, mine) = Hook::new(programs.own)?;
        // An earlier agent may have had an Envoy.
        if !choice.has_proxy {
            for interface in mine {
                own.programs.detach(interface)?;
            }
        }
        let entries = programs.entries;
        let written = entries.entries().map_err(io::Error::other)?;
        let mut all = Self {
            kernel: Kernel::open()?,
            names: choice.names,
            routing: Choice::new(choice.routing),
            report: choice.report,
            uplinks,
            own: choice.has_proxy.then_some(own),
            entries,
            written: written.into_iter().collect(),
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

    /// What fails is tried again with the next look.
    fn look(&mut self) {
        let trouble = match self.try_look() {
            Ok(trouble) => trouble,
            Err(e) => Some(format!("uplinks cannot be looked at: {e}")),
        };
        if trouble != self.told {
            if let Some(trouble) = &trouble {
                tracing::warn!(
                    "{trouble}: clients outside the cluster are not served there, and connections of other nodes that a policy leaves to \
                     Envoy are refused"
                );
            }
            self.told = trouble;
        }
    }

    fn try_look(&mut self) -> io::Result<Option<String>> {
        let interfaces = self.kernel.interfaces()?;
        let networks = self.kernel.networks()?;
        let wanted: BTreeSet<InterfaceIndex> = interfaces
            .iter()
            .filter(|(index, interface)| self.is_uplink(**index, interface, &networks))
            .map(|(index, _)| *index)
            .collect();
        // Those that are gone took their programs with them.
        self.uplinks.on.retain(|i| interfaces.contains_key(i));
        let mut routed = self.routing.now();
        // Before a program reads them.
        self.write_entries(&wanted, &interfaces, &networks, routed.bpf)?;
        let before = self.uplinks.on.clone();
        self.uplinks.settle(&wanted)?;
        let named = self.uplinks.on.iter().filter_map(|i| {
            let mtu = self.written.get(&i.get()).map_or(0, |e| e.routed_mtu);
            Some((interfaces.get(i)?.name.clone(), mtu))
        });
        routed.uplinks = named.collect();
        if self.uplinks.on != before {
            let names: Vec<&str> = routed.uplinks.iter().map(|(n, _)| n.as_str()).collect();
            tracing::info!("uplinks: {}", names.join(", "));
        }
        self.tell(routed);
        if let Some(own) = &mut self.own {
            own.settle(&index(LOOPBACK).into_iter().collect())?;
        }
        let missing = self
            .names
            .iter()
            .find(|name| interfaces.values().all(|i| i.name != **name));
        Ok(match missing {
            Some(name) => Some(format!("there is no interface {name} (--uplink)")),
            None if wanted.is_empty() && self.own.is_some() => {
                Some("no route to a network names an uplink: give --uplink".to_owned())
            }
            None => None,
        })
    }

    fn tell(&self, routed: RoutedBy) {
        self.report.send_if_modified(|told| {
            if *told == routed {
                return false;
            }
            if (told.bpf, &told.because) != (routed.bpf, &routed.because) {
                let by = if routed.bpf {
                    "the programs"
                } else {
                    "the node's stack"
                };
                tracing::info!(
                    "packets to pods of other nodes go by {by}: {}",
                    routed.because
                );
            }
            *told = routed;
            true
        });
    }

    fn is_uplink(
        &self,
        number: InterfaceIndex,
        interface: &Interface,
        networks: &BTreeMap<InterfaceIndex, Outlet>,
    ) -> bool {
        if !self.names.is_empty() {
            return self.names.contains(&interface.name);
        }
        let Some(outlet) = networks.get(&number) else {
            return false;
        };
        // Pods are behind it, or containers of other kinds.
        let is_inner = interface.kind == Kind::Bridge && !outlet.default;
        number.get() != LOOPBACK && !is_inner
    }

    fn write_entries(
        &mut self,
        wanted: &BTreeSet<InterfaceIndex>,
        interfaces: &BTreeMap<InterfaceIndex, Interface>,
        networks: &BTreeMap<InterfaceIndex, Outlet>,
        routed: bool,
    ) -> io::Result<()> {
        let addresses = self.kernel.addresses()?;
        // Where an interface has no address of a family, that of a default route's serves, else any.
        let mut order: Vec<u32> = wanted.iter().map(|i| i.get()).collect();
        let is_default = |n: &u32| {
            index(*n)
                .and_then(|i| networks.get(&i))
                .is_some_and(|o| o.default)
        };
        order.sort_by_key(|number| !is_default(number));
        let wanted: BTreeMap<u32, UplinkEntry> = wanted
            .iter()
            .map(|interface| {
                let places = [interface.get()].into_iter().chain(order.iter().copied());
                let way = interfaces.get(interface);
                let routed_mtu = way
                    .filter(|way| way.ethernet && routed)
                    .map(|way| longest(way.mtu, networks.get(interface)));
                let entry = UplinkEntry {
                    routed_mtu: routed_mtu.unwrap_or(0),
                    ..entry(places, &addresses, way.is_none_or(|i| i.ethernet))
                };
                (interface.get(), entry)
            })
            .collect();
        let changed: Vec<(u32, UplinkEntry)> = wanted
            .iter()
            .filter(|(number, entry)| self.written.get(number) != Some(entry))
            .map(|(number, entry)| (*number, *entry))
            .collect();
        if !changed.is_empty() {
            self.entries.write(&changed).map_err(io::Error::other)?;
        }
        let gone: Vec<u32> = self
            .written
            .keys()
            .filter(|number| !wanted.contains_key(number))
            .copied()
            .collect();
        if !gone.is_empty() {
            self.entries.delete(&gone).map_err(io::Error::other)?;
        }
        self.written = wanted;
        Ok(())
    }
}

/// Ports of this node that its own sockets are not given, for connections to other nodes on behalf of clients outside.
#[must_use]
pub fn ports_for_others() -> NodeSidePorts {
    let text = fs::read_to_string(LOCAL_PORTS).unwrap_or_default();
    let mut numbers = text.split_whitespace().filter_map(|n| n.parse().ok());
    let (first, last) = (numbers.next(), numbers.next());
    NodeSidePorts::beside(
        first.unwrap_or(DEFAULT_LOCAL_PORTS.0),
        last.unwrap_or(DEFAULT_LOCAL_PORTS.1),
    )
}

/// The longest packet that all routes by an interface of this MTU take.
fn longest(mtu: u32, outlet: Option<&Outlet>) -> u32 {
    let of_routes = outlet.and_then(|outlet| outlet.mtu);
    of_routes.map_or(mtu, |least| least.min(mtu))
}

/// The first addresses that may be seen from elsewhere, of the first of `places` that has any.
fn entry(
    places: impl Iterator<Item = u32> + Clone,
    addresses: &[(u32, IpAddr)],
    ethernet: bool,
) -> UplinkEntry {
    let of = |place| {
        let here = addresses.iter().filter(move |(number, _)| *number == place);
        here.map(|(_, address)| *address)
    };
    let all = places.flat_map(of);
    UplinkEntry {
        v4: all.clone().find_map(|address| match address {
            IpAddr::V4(v4) if !v4.is_link_local() && !v4.is_loopback() => Some(v4),
            _ => None,
        }),
        v6: all.clone().find_map(|address| match address {
            IpAddr::V6(v6) if !v6.is_unicast_link_local() && !v6.is_loopback() => Some(v6),
            _ => None,
        }),
        link_header: if ethernet { ETHERNET_HEADER } else { 0 },
        routed_mtu: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uplink_lends_the_address_that_it_has_not() {
        let address = |text: &str| text.parse().expect("address");
        let addresses = [
            (2, address("192.0.2.1")),
            (2, address("fe80::1")),
            (2, address("2001:db8::1")),
            (3, address("169.254.7.7")),
            (3, address("fe80::2")),
            (4, address("10.1.0.0")),
        ];
        let bare = entry([3, 2].into_iter(), &addresses, false);
        assert_eq!(bare.v4, Some([192, 0, 2, 1].into()));
        assert_eq!(bare.v6.map(IpAddr::from), Some(address("2001:db8::1")));
        assert_eq!(bare.link_header, 0);
        let overlay = entry([4, 2].into_iter(), &addresses, true);
        assert_eq!(overlay.v4, Some([10, 1, 0, 0].into()));
        assert_eq!(overlay.v6.map(IpAddr::from), Some(address("2001:db8::1")));
        assert_eq!(entry([3].into_iter(), &addresses, true).v4, None);
    }
}
