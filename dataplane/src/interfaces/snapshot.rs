//! What the kernel says about interfaces and addresses, read over rtnetlink.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::num::NonZeroU32;

use netlink_packet_core::NLM_F_CREATE;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkExtentMask, LinkInfo, LinkLayerType, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::InterfaceIndex;
use crate::netlink::Client;

/// An interface, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// What it lies on: a VLAN's parent, or the other end of a veth pair.
    pub(crate) lower: Option<u32>,
    /// Number that the agent's namespace has for the one where the other end is; none if that is the same.
    pub(crate) peer_netns: Option<i32>,
    /// Its frames have an Ethernet header; those of tunnels that carry IP packets as they are have none.
    pub(crate) ethernet: bool,
    /// Bytes of its longest packet.
    pub(crate) mtu: u32,
    /// Its own Ethernet address.
    pub(crate) address: Option<[u8; 6]>,
}

/// Kinds of interfaces that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bridge,
    Vlan,
    /// One end of a pair (veth, netkit), whose other end gets what is sent to this one.
    Pair,
    Other,
}

/// What the routes to networks that lead to one interface have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outlet {
    /// A default route is among them.
    pub(crate) default: bool,
    /// The least that any of them says of its longest packet.
    pub(crate) mtu: Option<u32>,
}

/// The route that the kernel would take to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) interface: InterfaceIndex,
    /// It is for this one address and names no gateway: the interface leads there and nowhere else.
    pub(crate) exact: bool,
    /// The address is said to be on the link itself.
    pub(crate) on_link: bool,
    /// The address is the host's own.
    pub(crate) local: bool,
}

/// A hardware address.
pub(crate) type Mac = Vec<u8>;

/// (bridge, hardware address) to the ports behind which it was seen.
pub(crate) type Fdb = BTreeMap<(InterfaceIndex, Mac), BTreeSet<InterfaceIndex>>;

/// Questions to the kernel about the agent's network namespace.
pub(crate) struct Kernel {
    client: Client<RouteNetlinkMessage>,
}

impl Kernel {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            client: Client::open(NETLINK_ROUTE)?,
        })
    }

    pub(crate) fn interfaces(&mut self) -> io::Result<BTreeMap<InterfaceIndex, Interface>> {
        let mut query = LinkMessage::default();
        let without_statistics = LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]);
        query.attributes.push(without_statistics);
        let links = self.client.dump(&RouteNetlinkMessage::GetLink(query))?;
        Ok(links
            .into_iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewLink(link) => {
                    let ethernet = is_ethernet(link.header.link_layer_type);
                    let found = interface(link.attributes, ethernet);
                    Some((index(link.header.index)?, found))
                }
                _ => None,
            })
            .collect())
    }

    /// Every address, with the index of its interface.
    pub(crate) fn addresses(&mut self) -> io::Result<Vec<(u32, IpAddr)>> {
        let query = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let addresses = self.client.dump(&query)?;
        Ok(addresses.into_iter().filter_map(own_address).collect())
    }

    /// The route to `address`; `None` if there is none.
    pub(crate) fn route(&mut self, address: IpAddr) -> io::Result<Option<Route>> {
        let mut query = RouteMessage::default();
        query.header.address_family = family(address);
        query.header.destination_prefix_length = full_prefix(address);
        // The entry itself, not what was made of it for this one address.
        query.header.flags = RouteFlags::FibMatch;
        query
            .attributes
            .push(RouteAttribute::Destination(address.into()));
        let answer = self.client.request(RouteNetlinkMessage::GetRoute(query), 0);
        match answer {
            Ok(Some(RouteNetlinkMessage::NewRoute(found))) => Ok(route(&found, address)),
            Ok(_) => Ok(None),
            // Unreachable, blackhole, prohibit: each has its own error.
            Err(e) if is_no_route(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The interfaces that lead to networks, not to single addresses, by the main routing tables of both families.
    pub(crate) fn networks(&mut self) -> io::Result<BTreeMap<InterfaceIndex, Outlet>> {
        let mut found = BTreeMap::<InterfaceIndex, Outlet>::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut query = RouteMessage::default();
            query.header.address_family = family;
            let routes = self.client.dump(&RouteNetlinkMessage::GetRoute(query))?;
            for (interface, way) in routes.iter().flat_map(networks) {
                found.entry(interface).or_default().add(way);
            }
        }
        Ok(found)
    }

    /// The hardware address that the kernel has for a neighbour on this interface.
    pub(crate) fn neighbour(
        &mut self,
        on: InterfaceIndex,
        address: IpAddr,
    ) -> io::Result<Option<Mac>> {
        let query = neighbour_query(on, address);
        let answer = self
            .client
            .request(RouteNetlinkMessage::GetNeighbour(query), 0);
        match answer {
            Ok(Some(RouteNetlinkMessage::NewNeighbour(found))) => Ok(mac(found)),
            Ok(_) => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Has the kernel find out the hardware address of a neighbour (ARP or neighbour solicitation), as if there were something to send.
    pub(crate) fn solicit(&mut self, on: InterfaceIndex, address: IpAddr) -> io::Result<()> {
        let mut query = neighbour_query(on, address);
        query.header.flags = NeighbourFlags::Use;
        let query = RouteNetlinkMessage::NewNeighbour(query);
        self.client.request(query, NLM_F_CREATE).map(drop)
    }

    pub(crate) fn fdb(&mut self) -> io::Result<Fdb> {
        let mut query = NeighbourMessage::default();
        query.header.family = AddressFamily::Bridge;
        let entries = self
            .client
            .dump(&RouteNetlinkMessage::GetNeighbour(query))?;
        let mut fdb = Fdb::new();
        for (key, port) in entries.into_iter().filter_map(fdb_entry) {
            fdb.entry(key).or_default().insert(port);
        }
        Ok(fdb)
    }
}

pub(crate) fn index(number: u32) -> Option<InterfaceIndex> {
    NonZeroU32::new(number).map(InterfaceIndex)
}

const fn is_ethernet(kind: LinkLayerType) -> bool {
    matches!(kind, LinkLayerType::Ether | LinkLayerType::Loopback)
}

fn interface(attributes: Vec<LinkAttribute>, ethernet: bool) -> Interface {
    let mut found = Interface {
        name: String::new(),
        kind: Kind::Other,
        lower: None,
        peer_netns: None,
        ethernet,
        mtu: 0,
        address: None,
    };
    for attribute in attributes {
        match attribute {
            LinkAttribute::IfName(name) => found.name = name,
            LinkAttribute::Address(bytes) => found.address = bytes.try_into().ok(),
            LinkAttribute::Mtu(mtu) => found.mtu = mtu,
            LinkAttribute::Link(lower) => found.lower = Some(lower),
            LinkAttribute::LinkNetNsId(id) => found.peer_netns = Some(id),
            LinkAttribute::LinkInfo(info) => {
                for part in info {
                    match part {
                        LinkInfo::Kind(InfoKind::Bridge) => found.kind = Kind::Bridge,
                        LinkInfo::Kind(InfoKind::Vlan) => found.kind = Kind::Vlan,
                        LinkInfo::Kind(InfoKind::Veth) => found.kind = Kind::Pair,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    found
}

fn own_address(answer: RouteNetlinkMessage) -> Option<(u32, IpAddr)> {
    let RouteNetlinkMessage::NewAddress(message) = answer else {
        return None;
    };
    let (mut local, mut address) = (None, None);
    for attribute in message.attributes {
        match attribute {
            AddressAttribute::Local(own) => local = Some(own),
            AddressAttribute::Address(either) => address = Some(either),
            _ => {}
        }
    }
    // On a point-to-point link `address` is the other end's.
    Some((message.header.index, local.or(address)?))
}

fn route(found: &RouteMessage, to: IpAddr) -> Option<Route> {
    let mut interface = None;
    let mut gateway = false;
    for attribute in &found.attributes {
        match attribute {
            RouteAttribute::Oif(number) => interface = index(*number),
            RouteAttribute::Gateway(via) => gateway |= !is_unspecified(via),
            RouteAttribute::Via(_) | RouteAttribute::MultiPath(_) => gateway = true,
            _ => {}
        }
    }
    let local = found.header.kind == RouteType::Local;
    let usable = local || found.header.kind == RouteType::Unicast;
    usable.then_some(Route {
        interface: interface?,
        exact: !local && !gateway && found.header.destination_prefix_length == full_prefix(to),
        on_link: !local && !gateway,
        local,
    })
}

impl Outlet {
    fn add(&mut self, other: Self) {
        self.default |= other.default;
        self.mtu = match (self.mtu, other.mtu) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, None) | (None, one) => one,
        };
    }
}

/// Where a route leads, if it is for a network; several where it has several next hops.
fn networks(answer: &RouteNetlinkMessage) -> Vec<(InterfaceIndex, Outlet)> {
    let RouteNetlinkMessage::NewRoute(found) = answer else {
        return Vec::new();
    };
    let header = &found.header;
    let bits = if header.address_family == AddressFamily::Inet6 {
        128
    } else {
        32
    };
    if header.destination_prefix_length == bits
        || header.kind != RouteType::Unicast
        || header.table != RouteHeader::RT_TABLE_MAIN
        || found.attributes.iter().any(is_of_link)
    {
        return Vec::new();
    }
    let way = Outlet {
        default: header.destination_prefix_length == 0,
        mtu: found.attributes.iter().find_map(own_mtu),
    };
    let hops = |attribute: &RouteAttribute| match attribute {
        RouteAttribute::Oif(number) => vec![*number],
        RouteAttribute::MultiPath(hops) => hops.iter().map(|h| h.interface_index).collect(),
        _ => Vec::new(),
    };
    let numbers = found.attributes.iter().flat_map(hops);
    let interfaces = numbers.filter_map(index);
    interfaces.map(|index| (index, way)).collect()
}

/// What a route says of the longest packet on its way, as `ip route ... mtu N` has it.
fn own_mtu(attribute: &RouteAttribute) -> Option<u32> {
    let RouteAttribute::Metrics(metrics) = attribute else {
        return None;
    };
    metrics.iter().find_map(|metric| match metric {
        RouteMetric::Mtu(mtu) => Some(*mtu),
        _ => None,
    })
}

/// Every interface has a route to its own link's IPv6 addresses (RFC 4291 2.5.6), and to groups.
fn is_of_link(attribute: &RouteAttribute) -> bool {
    match attribute {
        RouteAttribute::Destination(RouteAddress::Inet6(v6)) => {
            v6.is_unicast_link_local() || v6.is_multicast()
        }
        _ => false,
    }
}

fn is_unspecified(via: &RouteAddress) -> bool {
    match via {
        RouteAddress::Inet(v4) => v4.is_unspecified(),
        RouteAddress::Inet6(v6) => v6.is_unspecified(),
        _ => false,
    }
}

fn is_no_route(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotFound
    )
}

fn neighbour_query(on: InterfaceIndex, address: IpAddr) -> NeighbourMessage {
    let mut query = NeighbourMessage::default();
    query.header.family = family(address);
    query.header.ifindex = on.get();
    query
        .attributes
        .push(NeighbourAttribute::Destination(NeighbourAddress::from(
            address,
        )));
    query
}

fn mac(found: NeighbourMessage) -> Option<Mac> {
    // Without an answer the entry has no address, or that of an answer long ago.
    if matches!(
        found.header.state,
        NeighbourState::Incomplete | NeighbourState::Failed | NeighbourState::None
    ) {
        return None;
    }
    found
        .attributes
        .into_iter()
        .find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(mac) => Some(mac),
            _ => None,
        })
}

fn fdb_entry(answer: RouteNetlinkMessage) -> Option<((InterfaceIndex, Mac), InterfaceIndex)> {
    let RouteNetlinkMessage::NewNeighbour(entry) = answer else {
        return None;
    };
    let port = index(entry.header.ifindex)?;
    let (mut bridge, mut mac) = (None, None);
    for attribute in entry.attributes {
        match attribute {
            NeighbourAttribute::Controller(number) => bridge = index(number),
            NeighbourAttribute::LinkLayerAddress(address) => mac = Some(address),
            _ => {}
        }
    }
    Some(((bridge?, mac?), port))
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

const fn full_prefix(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
