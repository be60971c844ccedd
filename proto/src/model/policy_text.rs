//! Policies in words, for people: `all(namespace "shop", not(label app "web"))`.

use std::fmt::{self, Display, Formatter};

use super::policy::{
    Cidr, Expr, IpProtocol, LabelCondition, LabelRequirement, Match, ObjectRef, Pattern, PeerKind,
    Selector, StringMatch,
};

impl Display for ObjectRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

impl Display for Selector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.namespaces {
            None => f.write_str("all pods")?,
            Some(names) if names.is_empty() => f.write_str("pods of no namespace")?,
            Some(names) => {
                f.write_str("pods of ")?;
                list(f, names)?;
            }
        }
        for (i, requirement) in self.labels.iter().enumerate() {
            f.write_str(if i == 0 { " with " } else { " and " })?;
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for LabelRequirement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        match &self.is {
            LabelCondition::In(values) => {
                f.write_str(" in ")?;
                list(f, values)
            }
            LabelCondition::NotIn(values) => {
                f.write_str(" not in ")?;
                list(f, values)
            }
            LabelCondition::Exists => f.write_str(" there"),
            LabelCondition::DoesNotExist => f.write_str(" not there"),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::All(conditions) => {
                f.write_str("all(")?;
                list(f, conditions)?;
                f.write_str(")")
            }
            Self::OneOf(conditions) => {
                f.write_str("one of(")?;
                list(f, conditions)?;
                f.write_str(")")
            }
            Self::Not(condition) => write!(f, "not({condition})"),
            Self::Is(condition) => condition.fmt(f),
        }
    }
}

impl Display for Match {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(cidr) => cidr.fmt(f),
            Self::Ports(first, last) if first == last => write!(f, "port {first}"),
            Self::Ports(first, last) => write!(f, "ports {first}-{last}"),
            Self::PortName(name) => write!(f, "port {name:?}"),
            Self::Protocol(protocol) => protocol.fmt(f),
            Self::Namespace(text) => write!(f, "namespace {text}"),
            Self::ServiceAccount(text) => write!(f, "service account {text}"),
            Self::Label(key, None) => write!(f, "label {key}"),
            Self::Label(key, Some(text)) => write!(f, "label {key} {text}"),
            Self::SpiffeId(text) => write!(f, "SPIFFE ID {text}"),
            Self::Kind(kind) => f.write_str(match kind {
                PeerKind::Pod => "a pod",
                PeerKind::Node => "a node",
                PeerKind::External => "neither pod nor node",
            }),
            Self::Path(text) => write!(f, "path {text}"),
            Self::Header(name, None) => write!(f, "header {name}"),
            Self::Header(name, Some(text)) => write!(f, "header {name} {text}"),
            Self::Layer7(what) => write!(f, "layer 7 ({what})"),
        }
    }
}

impl Display for IpProtocol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
            Self::Icmp => "ICMP",
        })
    }
}

impl Display for Cidr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Display for StringMatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Exact(s) => write!(f, "{s:?}"),
            Pattern::Prefix(s) => write!(f, "{s:?}…"),
            Pattern::Suffix(s) => write!(f, "…{s:?}"),
            Pattern::Contains(s) => write!(f, "…{s:?}…"),
            Pattern::Regex(s) => write!(f, "/{s}/"),
        }?;
        if self.ignore_case {
            f.write_str(" in either case")?;
        }
        Ok(())
    }
}

fn list<T: Display>(f: &mut Formatter<'_>, items: impl IntoIterator<Item = T>) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        item.fmt(f)?;
    }
    Ok(())
}
