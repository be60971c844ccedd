//! Who may talk to whom.
//!
//! A connection is judged twice: by the policies of its source for egress, and by those of its destination for ingress; both have
//! to let it through. For one workload and direction, policies are asked in this order, and the first answer stands:
//!
//! 1. [`Tier::Admin`], by priority, then by resource name: the first policy with a matching rule decides, [`Effect::Pass`] skips to 2.
//! 2. [`Tier::Namespace`]: if any policy selects the workload, a matching rule allows, and without one it is refused.
//! 3. [`Tier::Baseline`], as 1.
//! 4. The node's default.
//!
//! [`Tier::Mesh`] is asked besides, and has to allow as well: a matching [`Effect::Deny`] refuses; if any [`Effect::Allow`] policy
//! selects the workload, one has to match; else it allows. This is what `envoy.config.rbac.v3.RBAC` filters in a row do.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A policy for one direction.
///
/// Wire form: `weft.policy.v1.Policy`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Resource name: within a tier and priority, policies are asked in this order.
    pub name: String,
    /// What the author wrote.
    pub origin: ObjectRef,
    /// Whom it selects.
    pub selector: Selector,
    /// Of connections to or from the selected.
    pub direction: Direction,
    /// When it is asked.
    pub tier: Tier,
    /// Within [`Tier::Admin`] and [`Tier::Baseline`]: lower ones first. Others ignore it.
    pub priority: u32,
    /// Whether it decides.
    pub mode: Mode,
    /// What a matching rule does.
    pub effect: Effect,
    /// Each by its name. Alternatives: one that matches is enough. None at all: the policy matches nothing, yet selects.
    pub rules: BTreeMap<String, Rule>,
}

/// The object a policy was made from: `NetworkPolicy shop/allow-web`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectRef {
    /// Kubernetes kind.
    pub kind: String,
    /// Empty for objects of the cluster.
    pub namespace: String,
    /// Kubernetes name.
    pub name: String,
}

/// Of which connections, seen from the selected workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// Those that it opens.
    Egress,
    /// Those that are opened to it.
    Ingress,
}

/// Groups of policies that are asked one after the other, see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// `ClusterNetworkPolicy` of tier Admin.
    Admin,
    /// `NetworkPolicy`.
    Namespace,
    /// `ClusterNetworkPolicy` of tier Baseline.
    Baseline,
    /// `AuthorizationPolicy`, and RBAC of foreign servers that name no tier.
    Mesh,
}

/// Whether a policy decides or only tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Mode {
    /// Decides.
    #[default]
    Enforce,
    /// What it would have refused passes, and is told.
    Audit,
}

/// What a matching rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Lets through; in [`Tier::Namespace`] and [`Tier::Mesh`] also: what no rule lets through is refused.
    Allow,
    /// Refuses.
    Deny,
    /// Leaves it to the next tier. Only in [`Tier::Admin`] and [`Tier::Baseline`].
    Pass,
}

/// Whom a policy selects: pods of these namespaces that meet all label requirements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Selector {
    /// `None`: all.
    pub namespaces: Option<BTreeSet<String>>,
    /// All have to hold.
    pub labels: Vec<LabelRequirement>,
}

/// A condition on one label (`LabelSelectorRequirement` of Kubernetes meta/v1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    /// Label key.
    pub key: String,
    /// What its value has to be.
    pub is: LabelCondition,
}

/// What a label's value has to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LabelCondition {
    /// There, and one of these.
    In(BTreeSet<String>),
    /// None of these, or not there.
    NotIn(BTreeSet<String>),
    /// There.
    Exists,
    /// Not there.
    DoesNotExist,
}

/// One way to match. As in Envoy's RBAC, principals are about the source and permissions about the destination, in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// About the source (RBAC principals).
    pub source: Expr,
    /// About the destination, its port and the protocol (RBAC permissions).
    pub destination: Expr,
}

/// A condition made of conditions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// Always true.
    Any,
    /// All of them; true when empty.
    All(Vec<Expr>),
    /// At least one of them; false when empty.
    OneOf(Vec<Expr>),
    /// The opposite.
    Not(Box<Expr>),
    /// A single condition.
    Is(Match),
}

/// A single condition. About the source in [`Rule::source`], about the destination in [`Rule::destination`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// Its address is in this CIDR.
    Address(Cidr),
    /// Port, both bounds included. Destination only; false for protocols without ports.
    Ports(u16, u16),
    /// The port of this name that the destination workload declares, for the protocol it declares. Destination only.
    PortName(String),
    /// Transport protocol. Destination only.
    Protocol(IpProtocol),
    /// Namespace of the workload; false for what is no pod.
    Namespace(StringMatch),
    /// Service account of the workload; false for what is no pod.
    ServiceAccount(StringMatch),
    /// Label of the workload or node: present, and with such a value if one is given.
    Label(String, Option<StringMatch>),
    /// SPIFFE ID of the workload: false without one.
    SpiffeId(StringMatch),
    /// What kind of thing it is.
    Kind(PeerKind),
    /// Path of an HTTP request, without query: the destination's Envoy judges it.
    Path(StringMatch),
    /// Header of an HTTP request, with such a value if one is given; `:method` and `:authority` among them. As [`Match::Path`].
    Header(String, Option<StringMatch>),
    /// Something that nobody here can see, in words ("request.auth.claims"): neither true nor false, and what depends on it is refused.
    Layer7(String),
}

/// What is at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PeerKind {
    /// A pod with an address of its own.
    Pod,
    /// A node, and its host-network pods.
    Node,
    /// Neither.
    External,
}

/// Transport protocols that policies tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpProtocol {
    /// IANA 6.
    Tcp,
    /// IANA 17.
    Udp,
    /// IANA 132.
    Sctp,
    /// ICMP (1) and ICMPv6 (58).
    Icmp,
}

/// An address prefix. Bits after it are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    /// First address.
    pub address: IpAddr,
    /// Bits that count: 0 to 32, or to 128 for IPv6.
    pub prefix: u8,
}

impl Expr {
    /// Visits every single condition in it.
    pub fn matches<'a>(&'a self, visit: &mut impl FnMut(&'a Match)) {
        match self {
            Self::Any => {}
            Self::All(list) | Self::OneOf(list) => list.iter().for_each(|e| e.matches(visit)),
            Self::Not(inner) => inner.matches(visit),
            Self::Is(single) => visit(single),
        }
    }
}

impl Match {
    /// Whether it is about a request, which Envoy sees and the kernel does not.
    #[must_use]
    pub const fn is_of_request(&self) -> bool {
        matches!(self, Self::Path(_) | Self::Header(..))
    }
}

impl Cidr {
    /// The prefix of `address`, later bits cleared; `None` when it has not that many bits. A v4-mapped address is taken for the
    /// IPv4 address inside where all of the mapping is covered.
    #[must_use]
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32u32.checked_sub(prefix.into())?);
                Some(Self {
                    address: Ipv4Addr::from_bits(v4.to_bits() & mask.unwrap_or(0)).into(),
                    prefix,
                })
            }
            IpAddr::V6(v6) => {
                if let (Some(v4), Some(prefix)) = (v6.to_ipv4_mapped(), prefix.checked_sub(96)) {
                    return Self::new(v4.into(), prefix);
                }
                let mask = u128::MAX.checked_shl(128u32.checked_sub(prefix.into())?);
                Some(Self {
                    address: Ipv6Addr::from_bits(v6.to_bits() & mask.unwrap_or(0)).into(),
                    prefix,
                })
            }
        }
    }
}

/// A condition on a string (`envoy.type.matcher.v3.StringMatcher`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StringMatch {
    /// What is compared.
    pub pattern: Pattern,
    /// ASCII letters compare alike in either case. Not for regular expressions.
    pub ignore_case: bool,
}

impl StringMatch {
    /// Whether whatever is there will do.
    #[must_use]
    pub fn is_anything(&self) -> bool {
        matches!(&self.pattern, Pattern::Prefix(text) | Pattern::Suffix(text) | Pattern::Contains(text) if text.is_empty())
    }

    /// This and nothing else.
    #[must_use]
    pub fn exactly(text: &str) -> Self {
        Self {
            pattern: Pattern::Exact(text.to_owned()),
            ignore_case: false,
        }
    }

    /// Whatever begins with this.
    #[must_use]
    pub fn prefix(text: &str) -> Self {
        Self {
            pattern: Pattern::Prefix(text.to_owned()),
            ignore_case: false,
        }
    }

    /// Whatever is there, as long as there is something.
    #[must_use]
    pub const fn anything() -> Self {
        Self {
            pattern: Pattern::Prefix(String::new()),
            ignore_case: false,
        }
    }
}

/// What a string is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// The same.
    Exact(String),
    /// Begins with this.
    Prefix(String),
    /// Ends with this.
    Suffix(String),
    /// Has this somewhere.
    Contains(String),
    /// The whole string matches this regular expression (RE2 syntax).
    Regex(String),
}
