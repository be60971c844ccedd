//! Who a client is, as Envoy can tell: by the address that it comes from.
//!
//! A pod on a Weft node cannot use another's address, and another node's packets are trusted as those of that node, as in the kernel.
//! Where connections come with a certificate, [`Sources::condition`] is the place to ask for the SPIFFE ID in it instead.

use std::net::IpAddr;
use std::sync::Arc;

use weft_proto::model::Workload;
use weft_proto::model::policy::{Expr, Match, Pattern, PeerKind, StringMatch};

use super::prefixes::covering;

/// Everybody who may be a client.
pub(super) struct Sources<'a> {
    pods: Vec<&'a Workload>,
    nodes: Vec<&'a Workload>,
}

impl<'a> Sources<'a> {
    pub(super) fn new(
        pods: impl Iterator<Item = &'a Arc<Workload>>,
        nodes: impl Iterator<Item = &'a Arc<Workload>>,
    ) -> Self {
        Self {
            pods: pods.map(AsRef::as_ref).collect(),
            nodes: nodes.map(AsRef::as_ref).collect(),
        }
    }

    /// What has to hold of the address for `single` to hold of the client; `None` where it is not about who the client is.
    pub(super) fn condition(&self, single: &Match) -> Option<Expr> {
        let pods = |holds: &dyn Fn(&Workload) -> bool| {
            let found = self.pods.iter().filter(|pod| holds(pod));
            Some(any_of(found.flat_map(|pod| pod.addresses.iter().copied())))
        };
        match single {
            Match::Namespace(text) => {
                let text = Text::new(text)?;
                pods(&|pod| text.is(&pod.namespace))
            }
            Match::ServiceAccount(text) => {
                let text = Text::new(text)?;
                pods(&|pod| text.is(&pod.service_account))
            }
            Match::SpiffeId(text) => {
                let text = Text::new(text)?;
                pods(&|pod| !pod.spiffe_id.is_empty() && text.is(&pod.spiffe_id))
            }
            Match::Label(key, text) => self.with_label(key, text.as_ref()),
            Match::Kind(PeerKind::Pod) => pods(&|_| true),
            Match::Kind(PeerKind::Node) => Some(any_of(self.node_addresses(|_| true))),
            Match::Kind(PeerKind::External) => {
                let all = self.pods.iter().chain(&self.nodes);
                let all = any_of(all.flat_map(|one| one.addresses.iter().copied()));
                Some(Expr::Not(Box::new(all)))
            }
            _ => None,
        }
    }

    fn with_label(&self, key: &str, text: Option<&StringMatch>) -> Option<Expr> {
        let text = match text {
            Some(text) => Some(Text::new(text)?),
            None => None,
        };
        let has = |one: &&&Workload| {
            let value = one.labels.get(key);
            value.is_some_and(|value| text.as_ref().is_none_or(|text| text.is(value)))
        };
        let all = self.pods.iter().chain(&self.nodes).filter(has);
        Some(any_of(all.flat_map(|one| one.addresses.iter().copied())))
    }

    fn node_addresses(&self, holds: impl Fn(&Workload) -> bool) -> impl Iterator<Item = IpAddr> {
        let found = self.nodes.iter().filter(move |node| holds(node));
        found.flat_map(|node| node.addresses.iter().copied())
    }
}

fn any_of(addresses: impl Iterator<Item = IpAddr>) -> Expr {
    let prefixes = covering(addresses).into_iter();
    Expr::OneOf(
        prefixes
            .map(|cidr| Expr::Is(Match::Address(cidr)))
            .collect(),
    )
}

/// A string matcher that can be asked.
struct Text<'a> {
    wanted: &'a StringMatch,
    regex: Option<regex::Regex>,
}

impl<'a> Text<'a> {
    /// `None` for an expression that is none.
    fn new(wanted: &'a StringMatch) -> Option<Self> {
        let regex = match &wanted.pattern {
            Pattern::Regex(text) => Some(regex::Regex::new(&format!("^(?:{text})$")).ok()?),
            _ => None,
        };
        Some(Self { wanted, regex })
    }

    fn is(&self, text: &str) -> bool {
        let fold = |text: &str| match self.wanted.ignore_case {
            true => text.to_ascii_lowercase(),
            false => text.to_owned(),
        };
        let folded = fold(text);
        match &self.wanted.pattern {
            Pattern::Exact(wanted) => folded == fold(wanted),
            Pattern::Prefix(wanted) => folded.starts_with(&fold(wanted)),
            Pattern::Suffix(wanted) => folded.ends_with(&fold(wanted)),
            Pattern::Contains(wanted) => folded.contains(&fold(wanted)),
            Pattern::Regex(_) => self.regex.as_ref().is_some_and(|r| r.is_match(text)),
        }
    }
}
