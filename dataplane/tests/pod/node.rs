//! A node as the programs see it: their maps, filled by the test, and two interfaces to run them on.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, OpenObject, ProgramInput, ProgramMut, RingBufferBuilder,
};
use weft_lab::netns::Netns;

use crate::bytes::{Event, Flow, Swept, mapped, u32_at, u64_at, words};
use crate::packet::Packet;
use crate::skel::{OpenWeftSkel, WeftProgs, WeftSkel, WeftSkelBuilder, types};

/// Host side of pod A's interface, the first that is made in a new namespace after `lo`.
pub const A: Pod = Pod {
    interface: 2,
    address: "10.1.0.1",
    address6: "fd00:1::1",
    identity: 101,
};
/// Pod B's.
pub const B: Pod = Pod {
    interface: 3,
    address: "10.1.0.2",
    address6: "fd00:1::2",
    identity: 102,
};
/// The node's own addresses.
pub const HOST: &str = "10.1.0.254";
pub const HOST_IDENTITY: u32 = 99;
/// A pod of another node.
pub const REMOTE: &str = "10.2.0.9";
pub const REMOTE6: &str = "fd00:2::9";
pub const REMOTE_IDENTITY: u32 = 209;

/// `TC_ACT_SHOT`
const SHOT: u32 = 2;
/// `TC_ACT_UNSPEC`: to the next program, if there is one.
const NEXT: u32 = u32::MAX;

#[derive(Clone, Copy)]
pub struct Pod {
    pub interface: u32,
    pub address: &'static str,
    pub address6: &'static str,
    pub identity: u32,
}

/// What became of a packet.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Outcome {
    Passed,
    Dropped,
}
pub use Outcome::{Dropped, Passed};

/// A rule from this point (class << 16 | port) on.
#[derive(Clone, Copy)]
pub struct Rule {
    pub first: u32,
    pub verdict: types::verdict,
    pub reason: types::reason,
    pub id: u32,
    pub audit: u32,
}

/// Everything allowed, by a rule of this id.
pub const fn allow(id: u32) -> Rule {
    Rule {
        first: 0,
        verdict: types::verdict::VERDICT_ALLOW,
        reason: types::reason::REASON_POLICY,
        id,
        audit: 0,
    }
}

/// Everything refused, by a rule of this id.
pub const fn deny(id: u32) -> Rule {
    Rule {
        verdict: types::verdict::VERDICT_DENY,
        ..allow(id)
    }
}

/// Everything left to Envoy, by a rule of this id.
pub const fn ask_envoy(id: u32) -> Rule {
    Rule {
        verdict: types::verdict::VERDICT_PROXY,
        reason: types::reason::REASON_LAYER7,
        ..allow(id)
    }
}

impl Rule {
    pub const fn from(mut self, point: u32) -> Self {
        self.first = point;
        self
    }

    pub const fn because(mut self, reason: types::reason) -> Self {
        self.reason = reason;
        self
    }

    pub const fn audited(mut self, audit: u32) -> Self {
        self.audit = audit;
        self
    }
}

/// One direction's policy of one pod.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Egress,
    Ingress,
}
pub use Direction::{Egress, Ingress};

#[derive(Default)]
struct Policy {
    sets: Vec<(u32, bool, [u32; 3])>,
    next_set: u32,
    next_rule: u32,
}

pub struct Node {
    skel: WeftSkel<'static>,
    policy: RefCell<Policy>,
}

/// Runs the test on a new node, in a network namespace of its own that is gone afterwards.
pub fn on_a_node(test: impl FnOnce(&Node) + Send) {
    on_a_node_with(|_| (), test);
}

/// Likewise; `resize` changes map sizes first.
pub fn on_a_node_with(
    resize: impl FnOnce(&mut OpenWeftSkel<'static>) + Send,
    test: impl FnOnce(&Node) + Send,
) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    struct Removed(Netns);
    impl Drop for Removed {
        fn drop(&mut self) {
            let _ = self.0.remove();
        }
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("weft-pod-{}-{number}", std::process::id());
    let netns = Removed(Netns::create(name).unwrap());
    netns
        .0
        .ip("link add pod-a type veth peer name pod-b\n")
        .unwrap();
    netns.0.run(|| test(&Node::new(resize))).unwrap();
}

fn cidr_key(prefix: u32, address: &str) -> Vec<u8> {
    [words(&[prefix]), mapped(address).to_vec()].concat()
}

impl Node {
    fn new(resize: impl FnOnce(&mut OpenWeftSkel<'static>)) -> Self {
        let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
        let mut open = WeftSkelBuilder::default().open(storage).unwrap();
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let wanted = [
                "weft_from_pod",
                "weft_to_pod",
                "weft_from_uplink",
                "weft_check",
                "weft_sweep",
            ];
            program.set_autoload(wanted.contains(&name.as_str()));
        }
        for mut map in open.open_object_mut().maps_mut() {
            if map.map_type() != libbpf_rs::MapType::RingBuf && map.max_entries() > 4096 {
                map.set_max_entries(4096).unwrap();
            }
        }
        resize(&mut open);
        let skel = open
            .load()
            .expect("loading needs root and BPF: run as root");
        let node = Self {
            skel,
            policy: RefCell::default(),
        };
        node.policy.borrow_mut().next_set = 1;
        node.identity(
            HOST,
            HOST_IDENTITY,
            0,
            types::identity_flags::IDENTITY_HOST.0,
        );
        node.identity(REMOTE, REMOTE_IDENTITY, 0, 0);
        node.identity(REMOTE6, REMOTE_IDENTITY, 0, 0);
        node.epoch(1);
        // As the agent keeps them.
        node.cidr(96, "0.0.0.0", types::identity_number::IDENTITY_WORLD.0);
        node.cidr(0, "::", types::identity_number::IDENTITY_WORLD.0);
        for pod in [A, B] {
            node.identity(pod.address, pod.identity, pod.interface, 0);
            node.identity(pod.address6, pod.identity, pod.interface, 0);
            node.policy(pod, Egress, &[allow(1)]);
            node.policy(pod, Ingress, &[allow(2)]);
        }
        node
    }

    pub fn map(&self, name: &str) -> MapHandle {
        let map = libbpf_rs::skel::Skel::object(&self.skel)
            .maps()
            .find(|map| map.name() == name)
            .unwrap_or_else(|| panic!("no map {name}"));
        MapHandle::try_from(&map).unwrap()
    }

    fn write(&self, map: &str, key: &[u8], value: &[u8]) {
        self.map(map).update(key, value, MapFlags::ANY).unwrap();
    }

    /// Who is at an address.
    pub fn identity(&self, address: &str, number: u32, interface: u32, flags: u32) {
        let value = words(&[number, interface, flags, 0]);
        self.write("identities", &mapped(address), &value);
    }

    /// Whose addresses lie in a CIDR, given as IPv6 (IPv4 mapped).
    pub fn cidr(&self, prefix: u32, address: &str, number: u32) {
        let key = cidr_key(prefix, address);
        self.write("cidr_identities", &key, &words(&[number]));
    }

    /// Nobody's any more.
    pub fn forget_cidr(&self, prefix: u32, address: &str) {
        let key = cidr_key(prefix, address);
        self.map("cidr_identities").delete(&key).unwrap();
    }

    pub fn epoch(&self, epoch: u32) {
        self.write("policy_settings", &words(&[0]), &words(&[epoch, 0]));
    }

    /// Gives a pod a new set for everybody.
    pub fn policy(&self, pod: Pod, direction: Direction, rules: &[Rule]) {
        let mut policy = self.policy.borrow_mut();
        let set = policy.next_set;
        policy.next_set += 1;
        let range = self.write_rules(&mut policy, set, rules);
        let key = (pod.interface, direction == Egress);
        policy.sets.retain(|(i, e, _)| (*i, *e) != key);
        policy.sets.push((key.0, key.1, [set, range[0], range[1]]));
        let of = |egress| {
            let found = policy.sets.iter().find(|s| (s.0, s.1) == (key.0, egress));
            found.map_or([0; 3], |(_, _, set)| *set)
        };
        let asks = rules
            .iter()
            .any(|rule| rule.verdict == types::verdict::VERDICT_PROXY);
        let flags = match direction == Ingress && asks {
            true => types::workload_flags::WORKLOAD_LAYER7.0,
            false => 0,
        };
        let value = [&of(true)[..], &of(false), &[flags]].concat();
        self.write("local_workloads", &words(&[pod.interface]), &words(&value));
    }

    /// Adds rules for one peer to the pod's set.
    pub fn peer(&self, pod: Pod, direction: Direction, peer: u32, rules: &[Rule]) {
        let mut policy = self.policy.borrow_mut();
        let key = (pod.interface, direction == Egress);
        let (_, _, [set, ..]) = *policy
            .sets
            .iter()
            .find(|(i, e, _)| (*i, *e) == key)
            .unwrap();
        let range = self.write_rules(&mut policy, set, rules);
        self.write("peer_rules", &words(&[set, peer]), &words(&range));
    }

    fn write_rules(&self, policy: &mut Policy, set: u32, rules: &[Rule]) -> [u32; 2] {
        let base = policy.next_rule;
        for rule in rules {
            let mut value = words(&[rule.first, set, rule.id, rule.audit]);
            value.extend([rule.verdict.0 as u8, rule.reason.0 as u8, 0, 0]);
            self.write("rules", &words(&[policy.next_rule]), &value);
            policy.next_rule += 1;
        }
        [base, rules.len() as u32]
    }

    /// No policy yet.
    pub fn forget_policy(&self, pod: Pod) {
        self.map("local_workloads")
            .delete(&words(&[pod.interface]))
            .unwrap();
    }

    /// Sends a packet out of the pod.
    pub fn from(&self, pod: Pod, packet: &Packet) -> Outcome {
        self.frame_from(pod, &packet.frame())
    }

    /// Sends a packet to the pod.
    pub fn to(&self, pod: Pod, packet: &Packet) -> Outcome {
        self.frame_to(pod, &packet.frame())
    }

    /// Sends a packet from one pod of this node to the other.
    pub fn between(&self, source: Pod, destination: Pod, packet: &Packet) -> Outcome {
        match self.from(source, packet) {
            Passed => self.to(destination, packet),
            Dropped => Dropped,
        }
    }

    pub fn frame_from(&self, pod: Pod, frame: &[u8]) -> Outcome {
        run(&self.skel.progs.weft_from_pod, pod, frame)
    }

    pub fn frame_to(&self, pod: Pod, frame: &[u8]) -> Outcome {
        run(&self.skel.progs.weft_to_pod, pod, frame)
    }

    pub const fn programs(&self) -> &WeftProgs<'static> {
        &self.skel.progs
    }

    /// Flows with a reply.
    pub fn tracked(&self) -> Vec<Flow> {
        self.flows("ct")
    }

    /// The one flow with a reply.
    pub fn flow(&self) -> Flow {
        let flows = self.tracked();
        assert_eq!(flows.len(), 1, "{flows:?}");
        flows[0]
    }

    /// Flows without a reply.
    pub fn pending(&self) -> Vec<Flow> {
        self.flows("ct_pending")
    }

    fn flows(&self, map: &str) -> Vec<Flow> {
        let map = self.map(map);
        map.keys()
            .map(|key| Flow::read(&map.lookup(&key, MapFlags::ANY).unwrap().unwrap()))
            .collect()
    }

    /// Changes all flows of a map, as if time had passed.
    pub fn change_flows(&self, map: &str, change: impl Fn(&mut [u8])) {
        let map = self.map(map);
        for key in map.keys() {
            let mut value = map.lookup(&key, MapFlags::ANY).unwrap().unwrap();
            change(&mut value);
            map.update(&key, &value, MapFlags::ANY).unwrap();
        }
    }

    /// Runs the sweep; what it did.
    pub fn sweep(&self) -> Swept {
        let program = &self.skel.progs.weft_sweep;
        program.test_run(ProgramInput::default()).unwrap();
        let told = self.map("sweeps").lookup(&words(&[0]), MapFlags::ANY);
        Swept::read(&told.unwrap().unwrap())
    }

    /// Entries of `closing_flows`.
    pub fn closing(&self) -> Vec<u32> {
        let map = self.map("closing_flows");
        map.keys()
            .map(|key| u32_at(&map.lookup(&key, MapFlags::ANY).unwrap().unwrap(), 0))
            .collect()
    }

    pub fn counter(&self, which: types::counter) -> u64 {
        let values = self
            .map("counters")
            .lookup_percpu(&words(&[which.0]), MapFlags::ANY);
        values
            .unwrap()
            .unwrap()
            .iter()
            .map(|value| u64_at(value, 0))
            .sum()
    }

    /// The events since the last call.
    pub fn events(&self) -> Vec<Event> {
        let map = self.map("events");
        let seen = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&seen);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&map, move |bytes| {
                sink.borrow_mut().push(Event::read(bytes));
                0
            })
            .unwrap();
        builder.build().unwrap().consume().unwrap();
        seen.take()
    }
}

fn run(program: &ProgramMut<'_>, pod: Pod, frame: &[u8]) -> Outcome {
    let mut context = context(pod.interface);
    let input = ProgramInput {
        context_in: Some(&mut context),
        data_in: Some(frame),
        ..Default::default()
    };
    match program.test_run(input).unwrap().return_value {
        NEXT => Passed,
        SHOT => Dropped,
        other => panic!("an action that no program takes: {other}"),
    }
}

/// `struct __sk_buff` of a packet on this interface.
pub fn context(interface: u32) -> Vec<u8> {
    let mut context = vec![0; 192];
    context[40..44].copy_from_slice(&interface.to_ne_bytes());
    context
}
