//! What a rule or a chain may do to a packet that goes through the node.

use super::message::{Message, attribute, attributes, number, text};

/// Chains that kube-proxy, kubelet, flannel and the portmap plugin fill: between pods of two nodes they change and refuse nothing that is
/// as it should be. kube-proxy drops what its connection tracking calls INVALID; Weft tracks these connections itself.
const HARMLESS_CHAINS: [&str; 16] = [
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-FORWARD",
    "KUBE-POSTROUTING",
    "KUBE-PROXY-FIREWALL",
    "KUBE-FIREWALL",
    "KUBE-MARK-MASQ",
    "KUBE-MARK-DROP",
    "KUBE-KUBELET-CANARY",
    "KUBE-PROXY-CANARY",
    "CNI-HOSTPORT-DNAT",
    "CNI-HOSTPORT-MASQ",
    "CNI-HOSTPORT-SETMARK",
    "FLANNEL-FWD",
    "FLANNEL-POSTRTG",
];
/// Tables of which the same holds: those of kube-proxy in its mode `nftables`.
const HARMLESS_TABLES: [&str; 1] = ["kube-proxy"];

/// Expressions that only look at a packet, whatever their attributes are.
const LOOKS: [&str; 11] = [
    "match", "counter", "cmp", "bitwise", "range", "fib", "socket", "rt", "numgen", "hash", "last",
];
/// Those that look at it if they have a register to put into what they saw (`NFTA_*_DREG`), and else change it.
const LOADS: [&str; 3] = ["payload", "meta", "ct"];

// Of linux/netfilter/nf_tables.h and linux/netfilter.h.
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const HOOK_NUMBER: u16 = 1;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const LOAD_REGISTER: u16 = 1;
const LOOKUP_REGISTER: u16 = 3;
const IMMEDIATE_DATA: u16 = 2;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;
const ACCEPT: u32 = 1;
/// `NFT_CONTINUE`, `NFT_JUMP`, `NFT_GOTO` and `NFT_RETURN`, of signed numbers.
const CONTINUE: u32 = u32::MAX;
const JUMP: u32 = u32::MAX - 2;
const GOTO: u32 = u32::MAX - 3;
const RETURN: u32 = u32::MAX - 4;
/// `NFPROTO_BRIDGE`, `NFPROTO_NETDEV`.
const BRIDGE: u8 = 7;
const NETDEV: u8 = 5;
/// `NF_INET_LOCAL_IN`, `NF_INET_LOCAL_OUT`: for what the node itself gets and sends.
const LOCAL: [u32; 2] = [1, 3];

/// A chain as rules name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChainName {
    pub(super) family: u8,
    pub(super) table: String,
    pub(super) chain: String,
}

impl ChainName {
    fn of(message: &Message, table: u16, chain: u16) -> Option<Self> {
        Some(Self {
            family: message.family,
            table: text(message.attribute(table)?),
            chain: text(message.attribute(chain)?),
        })
    }

    /// The chain that a rule is of.
    pub(super) fn of_rule(rule: &Message) -> Option<Self> {
        Self::of(rule, RULE_TABLE, RULE_CHAIN)
    }
}

/// A chain that packets through the node come to by themselves.
pub(super) struct BaseChain {
    pub(super) name: ChainName,
    /// Its policy lets through what no rule says anything about.
    pub(super) accepts: bool,
}

/// `chain`, if it is one.
pub(super) fn base_chain(chain: &Message) -> Option<BaseChain> {
    let hook = number(attribute(chain.attribute(CHAIN_HOOK)?, HOOK_NUMBER)?)?;
    if ![BRIDGE, NETDEV].contains(&chain.family) && LOCAL.contains(&hook) {
        return None;
    }
    let name = ChainName::of(chain, CHAIN_TABLE, CHAIN_NAME)?;
    if HARMLESS_TABLES.contains(&name.table.as_str()) {
        return None;
    }
    let policy = chain.attribute(CHAIN_POLICY).and_then(number);
    Some(BaseChain {
        name,
        accepts: policy.is_none_or(|policy| policy == ACCEPT),
    })
}

/// Whether a rule of a base chain leaves packets as they are, and refuses none.
pub(super) fn is_harmless(rule: &Message) -> bool {
    let expressions = rule.attribute(RULE_EXPRESSIONS).unwrap_or_default();
    attributes(expressions).all(|(_, expression)| {
        let data = attribute(expression, EXPRESSION_DATA).unwrap_or_default();
        match attribute(expression, EXPRESSION_NAME).map(text).as_deref() {
            Some("immediate") => is_harmless_verdict(data),
            Some("lookup") => attribute(data, LOOKUP_REGISTER).is_none(),
            Some(name) if LOADS.contains(&name) => attribute(data, LOAD_REGISTER).is_some(),
            Some(name) => LOOKS.contains(&name),
            None => false,
        }
    })
}

/// Values that are put into a register hurt nobody.
fn is_harmless_verdict(immediate: &[u8]) -> bool {
    let Some(data) = attribute(immediate, IMMEDIATE_DATA) else {
        return false;
    };
    let Some(verdict) = attribute(data, DATA_VERDICT) else {
        return true;
    };
    let chain = || attribute(verdict, VERDICT_CHAIN).map(text);
    match attribute(verdict, VERDICT_CODE).and_then(number) {
        Some(ACCEPT | CONTINUE | RETURN) => true,
        Some(JUMP | GOTO) => chain().is_some_and(|c| HARMLESS_CHAINS.contains(&c.as_str())),
        _ => false,
    }
}
