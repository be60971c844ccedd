use super::*;
use crate::interfaces::snapshot::index;

const BRIDGE: u32 = 3;
const VLAN: u32 = 4;
const UPLINK: u32 = 2;
const PORT: u32 = 7;

fn at(number: u32) -> InterfaceIndex {
    index(number).expect("not 0")
}

/// A network with one address.
#[derive(Clone, Default)]
struct Network {
    route: Option<Route>,
    mac: Option<Mac>,
    fdb: Fdb,
    solicited: usize,
}

impl Ask for Network {
    fn route(&mut self, _: IpAddr) -> io::Result<Option<Route>> {
        Ok(self.route)
    }
    fn neighbour(&mut self, _: InterfaceIndex, _: IpAddr) -> io::Result<Option<Mac>> {
        Ok(self.mac.clone())
    }
    fn solicit(&mut self, _: InterfaceIndex, _: IpAddr) -> io::Result<()> {
        self.solicited += 1;
        Ok(())
    }
    fn fdb(&mut self) -> io::Result<Fdb> {
        Ok(self.fdb.clone())
    }
}

fn interfaces() -> BTreeMap<InterfaceIndex, Interface> {
    let interface = |name: &str, kind, lower| Interface {
        name: name.to_owned(),
        kind,
        lower,
        peer_netns: None,
        ethernet: true,
        mtu: 1500,
        address: None,
    };
    BTreeMap::from([
        (at(UPLINK), interface("eth0", Kind::Other, None)),
        (at(BRIDGE), interface("br0", Kind::Bridge, None)),
        (at(VLAN), interface("br0.5", Kind::Vlan, Some(BRIDGE))),
        (at(PORT), interface("port", Kind::Other, None)),
    ])
}

fn route(through: u32) -> Route {
    Route {
        interface: at(through),
        exact: false,
        on_link: true,
        local: false,
    }
}

fn find(network: &mut Network) -> Result<InterfaceIndex, Missing> {
    let address = IpAddr::from([10, 0, 0, 1]);
    let found = Search::new(network, &interfaces()).find(address);
    found.expect("nothing fails here")
}

fn behind(bridge: u32, ports: &[u32]) -> Network {
    let mac = vec![2, 0, 0, 0, 0, 1];
    let ports = ports.iter().map(|port| at(*port)).collect();
    Network {
        route: Some(route(bridge)),
        fdb: Fdb::from([((at(BRIDGE), mac.clone()), ports)]),
        mac: Some(mac),
        solicited: 0,
    }
}

#[test]
fn only_a_host_route_makes_an_interface_the_pods_own() {
    let mut network = Network::default();
    assert_eq!(find(&mut network), Err(Missing::NoRoute));
    network.route = Some(route(UPLINK));
    assert_eq!(find(&mut network), Err(Missing::Elsewhere("eth0".into())));
    network.route = Some(Route {
        exact: true,
        ..route(PORT)
    });
    assert_eq!(find(&mut network), Ok(at(PORT)));
    network.route = Some(Route {
        local: true,
        ..route(PORT)
    });
    assert_eq!(find(&mut network), Err(Missing::OwnAddress));
    network.route = Some(route(99));
    assert_eq!(
        find(&mut network),
        Err(Missing::NoRoute),
        "unknown interface"
    );
}

#[test]
fn a_bridge_is_followed_to_its_port_also_through_a_vlan() {
    assert_eq!(find(&mut behind(BRIDGE, &[PORT])), Ok(at(PORT)));
    assert_eq!(find(&mut behind(VLAN, &[PORT])), Ok(at(PORT)));
    // The bridge itself is listed for its own addresses.
    assert_eq!(find(&mut behind(BRIDGE, &[BRIDGE, PORT])), Ok(at(PORT)));
}

#[test]
fn an_unclear_port_is_none() {
    let no_port = Err(Missing::NoPort("br0".into()));
    assert_eq!(find(&mut behind(BRIDGE, &[])), no_port);
    assert_eq!(find(&mut behind(BRIDGE, &[PORT, UPLINK])), no_port);
}

#[test]
fn the_kernel_is_made_to_ask_for_an_unknown_neighbour() {
    let mut network = behind(BRIDGE, &[PORT]);
    network.mac = None;
    assert_eq!(find(&mut network), Err(Missing::NoNeighbour("br0".into())));
    assert_eq!(network.solicited, 1);
}

#[test]
fn a_gateway_behind_a_bridge_is_no_pod() {
    let mut network = behind(BRIDGE, &[PORT]);
    network.route = Some(Route {
        on_link: false,
        ..route(BRIDGE)
    });
    assert_eq!(find(&mut network), Err(Missing::Elsewhere("br0".into())));
}
