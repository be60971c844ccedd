use super::*;
use crate::tables::memory::MemoryTable;
use weft_proto::model::{Mtls, MtlsMode};

type Modes = MemoryTable<ModeKey, Mode>;
type State = MemoryTable<u32, MtlsState>;

/// An engine over tables in memory that can be looked at.
struct Node {
    engine: MtlsEngine,
    tables: MtlsTables,
    modes: Modes,
    state: State,
}

impl Node {
    fn new(capacity: usize, opens: bool) -> Self {
        let modes = Modes::new("mtls_modes", capacity);
        let state = State::new("mtls_state", 1);
        let mut node = Self::over(modes, state, opens);
        node.engine.set_synced();
        node
    }

    fn over(modes: Modes, state: State, opens: bool) -> Self {
        let tables = MtlsTables {
            modes: Box::new(modes.clone()),
            state: Box::new(state.clone()),
        };
        let engine = MtlsEngine::new(&tables, "here", opens).expect("tables");
        Self {
            engine,
            tables,
            modes,
            state,
        }
    }

    fn set(&mut self, name: &str, workload: &Workload) {
        self.engine.set_workload(name, workload);
    }

    fn apply(&mut self) -> bool {
        self.engine.apply(&mut self.tables)
    }

    fn told(&self) -> MtlsState {
        self.state
            .with(|map| map.get(&0).copied().unwrap_or_default())
    }

    fn mode(&self, address: &str, port: u16) -> Option<Mode> {
        let address = address.parse().expect("address");
        let key = ModeKey { address, port };
        self.modes.with(|map| map.get(&key).copied())
    }

    fn entries(&self) -> usize {
        self.modes.with(|map| map.len())
    }
}

fn pod(node: &str, address: &str, mode: MtlsMode, ports: &[(u16, MtlsMode)]) -> Workload {
    Workload {
        name: format!("pod/shop/{address}"),
        kind: WorkloadKind::Pod,
        addresses: vec![address.parse().expect("address")],
        node: node.to_owned(),
        zone: String::new(),
        namespace: "shop".to_owned(),
        service_account: "default".to_owned(),
        labels: BTreeMap::new(),
        spiffe_id: String::new(),
        host_network: false,
        ports: Vec::new(),
        unaccelerated: false,
        out_of_mesh: false,
        mtls: Mtls {
            mode,
            ports: ports.iter().copied().collect(),
            tunnel: true,
        },
    }
}

#[test]
fn local_pods_require_and_others_are_tunnelled_to() {
    let mut node = Node::new(10, true);
    let strict = pod(
        "here",
        "10.0.0.1",
        MtlsMode::Strict,
        &[(80, MtlsMode::Disable)],
    );
    node.set("a", &strict);
    assert!(node.apply(), "living connections may be refused now");
    assert!(node.told().requires && !node.told().opens);
    let whole = node.mode("10.0.0.1", 0).expect("entry");
    assert!(whole.here && whole.ports && whole.mode == MtlsMode::Strict);
    let port = node.mode("10.0.0.1", 80).expect("entry");
    assert_eq!(port.mode, MtlsMode::Disable);
    node.set("b", &pod("there", "10.0.1.1", MtlsMode::Permissive, &[]));
    node.apply();
    assert!(node.told().opens);
    assert!(!node.mode("10.0.1.1", 0).expect("entry").here);
    node.set("a", &pod("here", "10.0.0.1", MtlsMode::Permissive, &[]));
    assert!(node.apply());
    assert!(!node.told().requires);
    assert_eq!(node.mode("10.0.0.1", 80), None);
    node.engine.remove_workload("a");
    node.engine.remove_workload("b");
    node.apply();
    assert_eq!(node.entries(), 0);
    assert_eq!(node.told(), MtlsState::default());
}

#[test]
fn without_envoy_nobody_else_is_told_and_own_pods_still_require() {
    let mut node = Node::new(10, false);
    node.set("a", &pod("here", "10.0.0.1", MtlsMode::Strict, &[]));
    node.set("b", &pod("there", "10.0.1.1", MtlsMode::Strict, &[]));
    node.apply();
    assert_eq!(node.entries(), 1);
    assert!(node.told().requires && !node.told().opens);
}

#[test]
fn a_local_pod_without_room_requires_mtls() {
    let mut node = Node::new(1, true);
    node.set("b", &pod("there", "10.0.1.1", MtlsMode::Permissive, &[]));
    node.apply();
    node.set("a", &pod("here", "10.0.2.1", MtlsMode::Strict, &[]));
    assert!(node.apply());
    assert_eq!(node.mode("10.0.2.1", 0), None);
    assert!(node.told().no_room && node.told().requires);
    node.engine.remove_workload("b");
    node.apply();
    node.apply();
    assert!(node.mode("10.0.2.1", 0).is_some());
    assert!(!node.told().no_room);
}

#[test]
fn what_an_earlier_agent_left_stays_until_all_is_known() {
    let mut node = Node::new(10, true);
    node.set("a", &pod("here", "10.0.0.1", MtlsMode::Strict, &[]));
    node.apply();
    let mut next = Node::over(node.modes.clone(), node.state.clone(), true);
    assert!(!next.apply());
    assert!(next.mode("10.0.0.1", 0).is_some());
    next.engine.set_synced();
    assert!(next.apply(), "nobody requires it any more");
    assert_eq!(next.entries(), 0);
    assert_eq!(next.told(), MtlsState::default());
}
