//! Single conditions, as a policy's text has them and as they are asked.

use std::net::IpAddr;

use weft_proto::model::policy::{Cidr, Expr, Match, PeerKind};

use super::steps::{Steps, WITH_PORTS, class_of, points_of};
use super::text::Text;
use super::tree::{Logic, Tree};
use super::tri::Tri;
use crate::policy::cidrs::{contains, host};
use crate::policy::subject::{Class, NamedPorts, Subject};

/// Something about whoever has an address.
#[derive(Clone, Debug)]
pub(crate) enum Fact {
    Address(Cidr),
    Namespace(Text),
    ServiceAccount(Text),
    Label(String, Option<Text>),
    SpiffeId(Text),
    Kind(PeerKind),
}

impl Fact {
    /// Of a peer: its class knows all prefixes that policies mention.
    pub(crate) fn holds(&self, class: &Class) -> bool {
        match self {
            Self::Address(cidr) => class.cidr.is_some_and(|inner| contains(cidr, &inner)),
            other => other.holds_of(&class.subject),
        }
    }

    /// Anything but addresses.
    pub(crate) fn holds_of(&self, subject: &Subject) -> bool {
        let is_pod = subject.kind == PeerKind::Pod;
        match self {
            Self::Address(_) => false,
            Self::Namespace(text) => is_pod && text.matches(&subject.namespace),
            Self::ServiceAccount(text) => is_pod && text.matches(&subject.service_account),
            Self::Label(key, text) => subject
                .labels
                .get(key)
                .is_some_and(|value| text.as_ref().is_none_or(|text| text.matches(value))),
            Self::SpiffeId(text) => {
                !subject.spiffe_id.is_empty() && text.matches(&subject.spiffe_id)
            }
            Self::Kind(kind) => subject.kind == *kind,
        }
    }

    /// Whether one of these is in the prefix; of several, some in and some not is unknown.
    pub(crate) fn holds_of_addresses(cidr: &Cidr, addresses: &[IpAddr]) -> Tri {
        let inside = |address: &&IpAddr| contains(cidr, &host(**address));
        match addresses.iter().filter(inside).count() {
            0 => Tri::No,
            all if all == addresses.len() => Tri::Yes,
            _ => Tri::Maybe,
        }
    }
}

/// A single condition of one side of a rule.
#[derive(Clone, Debug)]
pub(crate) enum Leaf {
    Fact(Fact),
    /// About protocol and port alone.
    Points(Steps<Tri>),
    /// The destination's port of this name.
    PortName(String),
}

/// Which end of the connection a side of a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
}

/// The condition that `expr` states about `end`. What cannot be told of that end is unknown.
pub(crate) fn condition(expr: &Expr, end: End) -> Tree<Leaf> {
    let list = |list: &[Expr]| list.iter().map(|expr| condition(expr, end)).collect();
    match expr {
        Expr::Any => Tree::Constant(Tri::Yes),
        Expr::All(all) => Tree::All(list(all)),
        Expr::OneOf(some) => Tree::OneOf(list(some)),
        Expr::Not(expr) => Tree::Not(Box::new(condition(expr, end))),
        Expr::Is(single) => leaf(single, end).map_or(Tree::Constant(Tri::Maybe), Tree::Leaf),
    }
}

/// Whether Envoy can tell whatever of `expr` the kernel cannot.
pub(crate) fn can_be_told(expr: &Expr, end: End) -> bool {
    let mut all = true;
    expr.matches(&mut |single| all &= single.is_of_request() || leaf(single, end).is_some());
    all
}

fn leaf(single: &Match, end: End) -> Option<Leaf> {
    let fact = match single {
        Match::Address(cidr) => Fact::Address(*cidr),
        Match::Namespace(text) => Fact::Namespace(Text::new(text)?),
        Match::ServiceAccount(text) => Fact::ServiceAccount(Text::new(text)?),
        Match::Label(key, None) => Fact::Label(key.clone(), None),
        Match::Label(key, Some(text)) => Fact::Label(key.clone(), Some(Text::new(text)?)),
        Match::SpiffeId(text) => Fact::SpiffeId(Text::new(text)?),
        Match::Kind(kind) => Fact::Kind(*kind),
        Match::Path(_) | Match::Header(..) | Match::Layer7(_) => return None,
        Match::Ports(..) | Match::PortName(_) | Match::Protocol(_) if end == End::Source => {
            return None;
        }
        Match::Ports(first, last) => {
            let range = |protocol| {
                let class = class_of(protocol);
                (class + u32::from(*first), class + u32::from(*last))
            };
            let ranges = match first <= last {
                true => WITH_PORTS.map(range).to_vec(),
                false => Vec::new(),
            };
            return Some(Leaf::Points(Steps::on(ranges, Tri::Yes, Tri::No)));
        }
        Match::Protocol(protocol) => {
            let class = vec![points_of(*protocol)];
            return Some(Leaf::Points(Steps::on(class, Tri::Yes, Tri::No)));
        }
        Match::PortName(name) => return Some(Leaf::PortName(name.clone())),
    };
    Some(Leaf::Fact(fact))
}

/// Where a connection goes that goes to one of these.
pub(crate) fn points_of_ports(ports: NamedPorts) -> Steps<Tri> {
    let numbers = [ports.tcp, ports.udp, ports.sctp];
    let points = WITH_PORTS
        .into_iter()
        .zip(numbers)
        .filter(|(_, port)| *port != 0)
        .map(|(protocol, port)| {
            let point = class_of(protocol) + u32::from(port);
            (point, point)
        });
    Steps::on(points.collect(), Tri::Yes, Tri::No)
}

impl Logic for Steps<Tri> {
    fn and(self, other: Self) -> Self {
        match (self.as_constant(), other.as_constant()) {
            (Some(Tri::Yes), _) | (_, Some(Tri::No)) => other,
            (Some(Tri::No), _) | (_, Some(Tri::Yes)) => self,
            _ => self.zip(&other, Tri::min),
        }
    }

    fn or(self, other: Self) -> Self {
        match (self.as_constant(), other.as_constant()) {
            (Some(Tri::No), _) | (_, Some(Tri::Yes)) => other,
            (Some(Tri::Yes), _) | (_, Some(Tri::No)) => self,
            _ => self.zip(&other, Tri::max),
        }
    }

    fn not(self) -> Self {
        self.map(Tri::not)
    }
}
