//! Policy tables in memory that fail on demand, and that are asked as the kernel asks them.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use weft_proto::model::policy::Direction;

use crate::tables::memory::MemoryTable;
use crate::tables::mtls::MtlsTables;
use crate::tables::policy::{
    CidrKey, IdentityEntry, IdentityNumber, LocalWorkload, NodePart, PeerKey, PolicySet,
    PolicySettings, PolicyTables, RuleEntry, RuleRange, RuleReason, Verdict,
};
use crate::tables::watched::{Faults, Watcher, watched};

/// Sizes of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) identities: usize,
    pub(super) cidrs: usize,
    pub(super) pods: usize,
    pub(super) peers: usize,
    pub(super) rules: usize,
}

impl Sizes {
    pub(super) const AMPLE: Self = Self {
        identities: 1_000,
        cidrs: 1_000,
        pods: 100,
        peers: 10_000,
        rules: 10_000,
    };
}

/// The tables' content, shared between engine and test.
#[derive(Clone)]
pub(super) struct Kernel {
    pub(super) identities: MemoryTable<IpAddr, IdentityEntry>,
    pub(super) cidrs: MemoryTable<CidrKey, IdentityNumber>,
    pub(super) pods: MemoryTable<u32, LocalWorkload>,
    pub(super) peers: MemoryTable<PeerKey, RuleRange>,
    pub(super) rules: MemoryTable<u32, RuleEntry>,
    pub(super) settings: MemoryTable<u32, PolicySettings>,
    control: Arc<Mutex<Control>>,
}

type Watch = Box<dyn Fn(&Kernel, &str) + Send>;

#[derive(Default)]
struct Control {
    faults: Faults,
    watch: Option<Watch>,
}

/// What the kernel says of a new connection, on one side of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    pub(super) reason: RuleReason,
    pub(super) rule: u32,
    pub(super) audit: u32,
}

impl Kernel {
    pub(super) fn new(sizes: Sizes) -> Self {
        Self {
            identities: MemoryTable::new("identities", sizes.identities),
            cidrs: MemoryTable::new("cidr_identities", sizes.cidrs),
            pods: MemoryTable::new("local_workloads", sizes.pods),
            peers: MemoryTable::new("peer_rules", sizes.peers),
            rules: MemoryTable::new("rules", sizes.rules),
            settings: MemoryTable::new("policy_settings", 1),
            control: Arc::default(),
        }
    }

    pub(super) fn tables(&self) -> PolicyTables {
        PolicyTables {
            identities: watched(self, &self.identities),
            cidr_identities: watched(self, &self.cidrs),
            local_workloads: watched(self, &self.pods),
            peer_rules: watched(self, &self.peers),
            rules: watched(self, &self.rules),
            settings: watched(self, &self.settings),
            mtls: MtlsTables {
                modes: Box::new(MemoryTable::new("mtls_modes", 0)),
                state: Box::new(MemoryTable::new("mtls_state", 1)),
            },
        }
    }

    pub(super) fn set_faults(&self, faults: impl IntoIterator<Item = Option<usize>>) {
        self.control(|c| c.faults.set(faults));
    }

    /// Looks at the tables after every operation.
    pub(super) fn watch(&self, watch: Option<Watch>) {
        self.control(|c| c.watch = watch);
    }

    pub(super) fn epoch(&self) -> u32 {
        self.settings.with(|m| m.get(&0).map_or(0, |s| s.epoch))
    }

    /// As `weft_from_pod` and `weft_to_pod` judge; `None`: not ready.
    pub(super) fn judge(
        &self,
        direction: Direction,
        interface: u32,
        peer: IpAddr,
        point: u32,
    ) -> Option<Answer> {
        let pod = self.pods.with(|m| m.get(&interface).copied())?;
        let set = match direction {
            Direction::Egress => pod.egress,
            Direction::Ingress => pod.ingress,
        };
        let entry = self.identities.with(|m| m.get(&peer).copied());
        if entry.is_some_and(|entry| entry.node == NodePart::Host) {
            return Some(Answer {
                verdict: Verdict::Allow,
                reason: RuleReason::Default,
                rule: 0,
                audit: 0,
            });
        }
        let number = entry.map_or_else(|| self.outside(peer), |entry| entry.number);
        let key = PeerKey {
            set: set.id,
            identity: number,
        };
        let range = self.peers.with(|m| m.get(&key).copied());
        let rule = self.rule(set, range.unwrap_or(set.rules), point);
        Some(Answer {
            verdict: rule.verdict,
            reason: rule.reason,
            rule: rule.rule,
            audit: rule.audit,
        })
    }

    /// The longest prefix, IPv4 as v4-mapped IPv6.
    fn outside(&self, address: IpAddr) -> IdentityNumber {
        let (bits, _) = mapped(address, 0);
        self.cidrs.with(|m| {
            let around = m.iter().filter_map(|(key, number)| {
                let (start, prefix) = mapped(key.address, key.prefix);
                let inside = (start ^ bits).leading_zeros() >= prefix;
                inside.then_some((prefix, *number))
            });
            let longest = around.max_by_key(|(prefix, _)| *prefix);
            longest.map_or(IdentityNumber::REFUSED, |(_, number)| number)
        })
    }

    fn rule(&self, set: PolicySet, range: RuleRange, point: u32) -> RuleEntry {
        self.rules.with(|m| {
            let rules: Vec<RuleEntry> = (range.base..range.base + range.count)
                .map(|place| m[&place])
                .collect();
            assert!(
                rules.iter().all(|rule| rule.set == set.id),
                "{set:?}: {rules:?}"
            );
            assert_eq!(rules.first().map(|rule| rule.first), Some(0));
            assert!(rules.windows(2).all(|w| w[0].first < w[1].first));
            let after = rules.partition_point(|rule| rule.first <= point);
            rules[after - 1]
        })
    }

    fn control<R>(&self, look: impl FnOnce(&mut Control) -> R) -> R {
        look(
            &mut self
                .control
                .lock()
                .expect("no test panics while it holds this"),
        )
    }
}

fn mapped(address: IpAddr, prefix: u8) -> (u128, u32) {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped().to_bits(), prefix + 96),
        IpAddr::V6(v6) => (Ipv6Addr::to_bits(v6), prefix),
    }
}

impl Watcher for Kernel {
    fn fault(&self) -> Option<usize> {
        self.control(|c| c.faults.next())
    }

    fn done(&self, operation: &str) {
        let watch = self.control(|c| c.watch.take());
        if let Some(watch) = watch {
            watch(self, operation);
            self.watch(Some(watch));
        }
    }
}
