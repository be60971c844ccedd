//! Delivers packets with Envoy's mark to this network namespace, whatever their destination is: a rule for the mark, and a table in which
//! every address is local.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::bpf::MARK_TO_PROXY;
use crate::netlink::Client;

/// Nobody else's, see INTERFACES: the table of `ip route show table 5000`.
const TABLE: u32 = 5000;
/// Before the rules of container networks, which know nothing of the mark.
const PRIORITY: u32 = 100;
const LOOPBACK: u32 = 1;
const FAMILIES: [AddressFamily; 2] = [AddressFamily::Inet, AddressFamily::Inet6];

/// The kernel looks for the socket of a packet before it routes it, and drops what it has found one for if the packet then is to be sent
/// on. A reply to Envoy is sent on, to the pod in whose name Envoy asked, before the pod's interface turns it back: docs/adr/0020.
const EARLY_DEMUX: &str = "/proc/sys/net/ipv4/tcp_early_demux";

/// What the node's own processes send to a pod, and is Envoy's, comes in again by the loopback interface: from an address of the node.
const ACCEPT_LOCAL: &str = "/proc/sys/net/ipv4/conf/lo/accept_local";

/// Connections that an Envoy has not accepted yet as it stops listening go to the one that takes over from it. Nothing else has several
/// listeners at one port here, so it stays. From Linux 5.14 on.
const MIGRATE: &str = "/proc/sys/net/ipv4/tcp_migrate_req";

/// Rules and routes that are there, until they are removed.
pub struct Routing {
    client: Client<RouteNetlinkMessage>,
    /// As they were found.
    early_demux: String,
    accept_local: String,
}

impl Routing {
    /// Makes what is not there yet, in the network namespace of the caller.
    ///
    /// # Errors
    /// When the kernel refuses. A node without IPv6 does without.
    pub fn make() -> io::Result<Self> {
        let mut client = Client::open(NETLINK_ROUTE)?;
        for family in FAMILIES {
            let made = make(&mut client, family);
            match made {
                Err(e) if family == AddressFamily::Inet6 && is_unsupported(&e) => {
                    tracing::info!("no IPv6 here: {e}");
                }
                other => other?,
            }
        }
        let early_demux = fs::read_to_string(EARLY_DEMUX)?;
        fs::write(EARLY_DEMUX, "0")?;
        let accept_local = fs::read_to_string(ACCEPT_LOCAL)?;
        fs::write(ACCEPT_LOCAL, "1")?;
        if let Err(e) = fs::write(MIGRATE, "1") {
            tracing::warn!("{MIGRATE}: {e}; connections may be lost when Envoy is upgraded");
        }
        Ok(Self {
            client,
            early_demux,
            accept_local,
        })
    }

    /// Takes all of it away.
    pub fn remove(mut self) {
        let gone = unmake(&mut self.client);
        let gone = gone.and_then(|_| fs::write(EARLY_DEMUX, self.early_demux.trim()));
        if let Err(e) = gone.and_then(|()| fs::write(ACCEPT_LOCAL, self.accept_local.trim())) {
            tracing::warn!("the routing to Envoy stays: {e}; `weft cleanup` removes it");
        }
    }
}

/// Removes what an agent left in this network namespace; how many rules that were. Early demultiplexing is on afterwards, as the kernel has it by
/// default: what it was before is known to that agent alone.
///
/// # Errors
/// When the kernel refuses.
pub fn remove() -> io::Result<usize> {
    unmake(&mut Client::open(NETLINK_ROUTE)?)
}

fn make(client: &mut Client<RouteNetlinkMessage>, family: AddressFamily) -> io::Result<()> {
    // The route first: a mark that finds no route would be sent on its way.
    let wanted = [
        RouteNetlinkMessage::NewRoute(route(family)),
        RouteNetlinkMessage::NewRule(rule(family)),
    ];
    for message in wanted {
        match client.request(message, NLM_F_CREATE | NLM_F_EXCL) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

fn unmake(client: &mut Client<RouteNetlinkMessage>) -> io::Result<usize> {
    let mut rules = 0;
    for family in FAMILIES {
        rules += usize::from(delete(client, RouteNetlinkMessage::DelRule(rule(family)))?);
        delete(client, RouteNetlinkMessage::DelRoute(route(family)))?;
    }
    if rules > 0 {
        fs::write(EARLY_DEMUX, "1")?;
        fs::write(ACCEPT_LOCAL, "0")?;
    }
    Ok(rules)
}

/// Whether it was there.
fn delete(
    client: &mut Client<RouteNetlinkMessage>,
    message: RouteNetlinkMessage,
) -> io::Result<bool> {
    const NO_SUCH_PROCESS: i32 = 3;
    match client.request(message, 0) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound || is_unsupported(&e) => Ok(false),
        Err(e) if e.raw_os_error() == Some(NO_SUCH_PROCESS) => Ok(false),
        Err(e) => Err(e),
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    const ADDRESS_FAMILY_NOT_SUPPORTED: i32 = 97;
    const OPERATION_NOT_SUPPORTED: i32 = 95;
    // A route to an interface on which IPv6 is switched off (`disable_ipv6`).
    const PERMISSION_DENIED: i32 = 13;
    matches!(
        error.raw_os_error(),
        Some(ADDRESS_FAMILY_NOT_SUPPORTED | OPERATION_NOT_SUPPORTED | PERMISSION_DENIED)
    )
}

fn route(family: AddressFamily) -> RouteMessage {
    let mut route = RouteMessage::default();
    route.header.address_family = family;
    route.header.protocol = RouteProtocol::Static;
    route.header.scope = RouteScope::Host;
    route.header.kind = RouteType::Local;
    let any: IpAddr = match family {
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    route.attributes = vec![
        RouteAttribute::Destination(any.into()),
        RouteAttribute::Oif(LOOPBACK),
        RouteAttribute::Table(TABLE),
    ];
    route
}

fn rule(family: AddressFamily) -> RuleMessage {
    let mut rule = RuleMessage::default();
    rule.header.family = family;
    rule.header.action = RuleAction::ToTable;
    rule.attributes = vec![
        RuleAttribute::Priority(PRIORITY),
        RuleAttribute::FwMark(MARK_TO_PROXY),
        RuleAttribute::FwMask(u32::MAX),
        RuleAttribute::Table(TABLE),
    ];
    rule
}
