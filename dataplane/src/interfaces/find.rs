//! From a pod's address to the interface that leads to it.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use super::InterfaceIndex;
use super::snapshot::{Fdb, Interface, Kernel, Kind, Mac, Route};

/// Why an address has no interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// Nothing leads there, or only what drops it.
    #[error("no route leads to it")]
    NoRoute,
    /// The workload says that it has an address of its own.
    #[error("it is an address of this node itself")]
    OwnAddress,
    /// The interface leads to others too.
    #[error("its route leads through {0}, which is not the pod's own interface")]
    Elsewhere(String),
    /// No ARP or neighbour discovery answer yet.
    #[error("nobody on bridge {0} answers for it")]
    NoNeighbour(String),
    /// The hardware address is behind no port, or behind several.
    #[error("no single port of bridge {0} leads to its hardware address")]
    NoPort(String),
}

/// What is asked of the kernel on the way.
pub(super) trait Ask {
    fn route(&mut self, address: IpAddr) -> io::Result<Option<Route>>;
    fn neighbour(&mut self, on: InterfaceIndex, address: IpAddr) -> io::Result<Option<Mac>>;
    fn solicit(&mut self, on: InterfaceIndex, address: IpAddr) -> io::Result<()>;
    fn fdb(&mut self) -> io::Result<Fdb>;
}

impl Ask for Kernel {
    fn route(&mut self, address: IpAddr) -> io::Result<Option<Route>> {
        Self::route(self, address)
    }
    fn neighbour(&mut self, on: InterfaceIndex, address: IpAddr) -> io::Result<Option<Mac>> {
        Self::neighbour(self, on, address)
    }
    fn solicit(&mut self, on: InterfaceIndex, address: IpAddr) -> io::Result<()> {
        Self::solicit(self, on, address)
    }
    fn fdb(&mut self) -> io::Result<Fdb> {
        Self::fdb(self)
    }
}

/// One look at the network: the forwarding database is read at most once, and only where there is a bridge to look into.
pub(super) struct Search<'a, A> {
    ask: &'a mut A,
    interfaces: &'a BTreeMap<InterfaceIndex, Interface>,
    fdb: Option<Fdb>,
}

impl<'a, A: Ask> Search<'a, A> {
    pub(super) fn new(ask: &'a mut A, interfaces: &'a BTreeMap<InterfaceIndex, Interface>) -> Self {
        Self {
            ask,
            interfaces,
            fdb: None,
        }
    }

    /// The interface that leads to `address` and to nobody else.
    ///
    /// A host route is the interface's own. A route to a bridge is followed: the neighbour entry has the hardware address, the
    /// forwarding database its port. Where the kernel does not know the neighbour yet, it is made to ask; a later search finds it.
    /// Any other route may lead to half the world, as one through an uplink does.
    pub(super) fn find(&mut self, address: IpAddr) -> io::Result<Result<InterfaceIndex, Missing>> {
        let Some(route) = self.ask.route(address)? else {
            return Ok(Err(Missing::NoRoute));
        };
        let Some(interface) = self.interfaces.get(&route.interface) else {
            // Newer than the list of interfaces.
            return Ok(Err(Missing::NoRoute));
        };
        if route.local {
            return Ok(Err(Missing::OwnAddress));
        }
        if let Some(bridge) = self.bridge_below(route.interface, interface)
            && route.on_link
        {
            return self.behind_bridge(bridge, route.interface, address);
        }
        Ok(if route.exact {
            Ok(route.interface)
        } else {
            Err(Missing::Elsewhere(interface.name.clone()))
        })
    }

    fn bridge_below(&self, index: InterfaceIndex, interface: &Interface) -> Option<InterfaceIndex> {
        match interface.kind {
            Kind::Bridge => Some(index),
            Kind::Vlan => {
                let lower = super::snapshot::index(interface.lower?)?;
                (self.interfaces.get(&lower)?.kind == Kind::Bridge).then_some(lower)
            }
            Kind::Pair | Kind::Other => None,
        }
    }

    fn behind_bridge(
        &mut self,
        bridge: InterfaceIndex,
        on: InterfaceIndex,
        address: IpAddr,
    ) -> io::Result<Result<InterfaceIndex, Missing>> {
        let name = || {
            self.interfaces
                .get(&bridge)
                .map_or_else(String::new, |b| b.name.clone())
        };
        let Some(mac) = self.ask.neighbour(on, address)? else {
            let missing = Missing::NoNeighbour(name());
            self.ask.solicit(on, address)?;
            return Ok(Err(missing));
        };
        let missing = Missing::NoPort(name());
        if self.fdb.is_none() {
            self.fdb = Some(self.ask.fdb()?);
        }
        let ports = self.fdb.as_ref().and_then(|fdb| fdb.get(&(bridge, mac)));
        let mut ports = ports.into_iter().flatten().filter(|port| **port != bridge);
        Ok(match (ports.next(), ports.next()) {
            (Some(only), None) => Ok(*only),
            _ => Err(missing),
        })
    }
}

#[cfg(test)]
mod tests;
