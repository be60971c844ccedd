//! Which flows somebody wants to see.

use std::net::IpAddr;

use weft_proto::wire::admin::v1::FlowFilter;
use weft_proto::wire::flow::v1::{Endpoint, Flow};

/// A filter that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Neither an address nor a name.
    #[error(
        "{0:?} names nothing: give NAMESPACE/POD, NAMESPACE/SERVICE, NAMESPACE, an address or a CIDR"
    )]
    End(String),
    /// No such verdict.
    #[error("{0:?} is no verdict: give allowed, denied or audited")]
    Verdict(String),
}

/// What the ends and the verdict have to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    from: Option<End>,
    to: Option<End>,
    verdict: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// Address and how many bits of it count.
    Cidr(IpAddr, u8),
    /// Of a pod, of its owner, or of the service that was asked for.
    Name {
        namespace: String,
        name: String,
    },
    Namespace(String),
}

impl TryFrom<FlowFilter> for Filter {
    type Error = FilterError;

    fn try_from(wire: FlowFilter) -> Result<Self, FilterError> {
        let verdict = match wire.verdict.as_str() {
            "" => None,
            "allowed" | "denied" | "audited" => Some(wire.verdict),
            _ => return Err(FilterError::Verdict(wire.verdict)),
        };
        Ok(Self {
            from: End::parse(&wire.from)?,
            to: End::parse(&wire.to)?,
            verdict,
        })
    }
}

impl Filter {
    /// Whether this flow is wanted.
    #[must_use]
    pub fn wants(&self, flow: &Flow) -> bool {
        let verdict = self.verdict.as_ref();
        verdict.is_none_or(|wanted| *wanted == flow.verdict)
            && self.wants_ends(
                flow.source.as_ref(),
                flow.destination.as_ref(),
                &flow.service,
            )
    }

    /// Whether something between these ends is wanted.
    pub(crate) fn wants_ends(
        &self,
        source: Option<&Endpoint>,
        destination: Option<&Endpoint>,
        service: &str,
    ) -> bool {
        let is = |end: &End, found: Option<&Endpoint>| found.is_some_and(|e| end.is(e));
        let from = self.from.as_ref().is_none_or(|end| is(end, source));
        from && self
            .to
            .as_ref()
            .is_none_or(|end| is(end, destination) || end.is_service(service))
    }
}

impl End {
    fn parse(text: &str) -> Result<Option<Self>, FilterError> {
        if text.is_empty() {
            return Ok(None);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            let address = address.to_canonical();
            return Ok(Some(Self::Cidr(address, bits(address))));
        }
        let end = match text.split_once('/') {
            None => Some(Self::Namespace(text.to_owned())),
            Some((address, prefix)) if address.parse::<IpAddr>().is_ok() => {
                let address: Option<IpAddr> = address.parse().ok();
                let prefix: Option<u8> = prefix.parse().ok();
                address
                    .zip(prefix)
                    .filter(|(address, prefix)| *prefix <= bits(*address))
                    .map(|(address, prefix)| Self::Cidr(address, prefix))
            }
            Some((namespace, name)) => Self::name(namespace, name),
        };
        end.map(Some)
            .ok_or_else(|| FilterError::End(text.to_owned()))
    }

    /// "NAMESPACE/" is the namespace, as in other verbs.
    fn name(namespace: &str, name: &str) -> Option<Self> {
        if namespace.is_empty() || name.contains('/') {
            return None;
        }
        let namespace = namespace.to_owned();
        Some(match name {
            "" => Self::Namespace(namespace),
            _ => Self::Name {
                namespace,
                name: name.to_owned(),
            },
        })
    }

    fn is(&self, endpoint: &Endpoint) -> bool {
        match self {
            Self::Cidr(address, prefix) => endpoint
                .address
                .parse()
                .is_ok_and(|found| contains(*address, *prefix, found)),
            Self::Name { namespace, name } => {
                endpoint.namespace == *namespace
                    && (endpoint.pod == *name || endpoint.workload == *name)
            }
            Self::Namespace(namespace) => endpoint.namespace == *namespace,
        }
    }

    fn is_service(&self, service: &str) -> bool {
        match self {
            Self::Name { namespace, name } => service
                .split_once('/')
                .is_some_and(|found| found == (namespace, name)),
            Self::Cidr(..) | Self::Namespace(_) => false,
        }
    }
}

const fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    let (network, address, width) = match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    // A shift by all 128 bits is none.
    let differing = (network ^ address).checked_shr(width - u32::from(prefix));
    differing.unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(from: &str, to: &str, verdict: &str) -> Result<Filter, FilterError> {
        Filter::try_from(FlowFilter {
            from: from.into(),
            to: to.into(),
            verdict: verdict.into(),
        })
    }

    fn flow() -> Flow {
        Flow {
            source: Some(Endpoint {
                address: "10.0.0.1".into(),
                namespace: "default".into(),
                pod: "probe".into(),
                workload: "probe".into(),
                ..Default::default()
            }),
            destination: Some(Endpoint {
                address: "fd00::2".into(),
                namespace: "shop".into(),
                pod: "cart-7d9c5b8f6-x2x7k".into(),
                workload: "cart".into(),
                ..Default::default()
            }),
            service: "shop/basket".into(),
            verdict: "denied".into(),
            ..Default::default()
        }
    }

    #[test]
    fn ends_are_found_by_all_their_names() {
        for (from, to) in [
            ("", ""),
            ("default/probe", "shop/cart-7d9c5b8f6-x2x7k"),
            ("default", "shop/cart"),
            ("default/", "shop/basket"),
            ("10.0.0.1", "fd00::2"),
            ("10.0.0.0/24", "fd00::/16"),
            ("0.0.0.0/0", "::/0"),
        ] {
            let filter = filter(from, to, "denied").expect("a filter");
            assert!(filter.wants(&flow()), "{from} {to}");
        }
        for (from, to) in [
            ("default/other", ""),
            ("shop", ""),
            ("shop/basket", ""),
            ("10.0.1.0/24", ""),
            ("::/0", ""),
            ("", "default"),
            ("", "0.0.0.0/0"),
            ("", "shop/bask"),
        ] {
            let filter = filter(from, to, "").expect("a filter");
            assert!(!filter.wants(&flow()), "{from} {to}");
        }
        assert!(!filter("", "", "allowed").expect("a filter").wants(&flow()));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for text in ["10.0.0.0/33", "/x", "a/b/c", "10.0.0.0/x", "::/129"] {
            let error = filter(text, "", "").expect_err("nonsense");
            assert!(error.to_string().contains(text), "{error}");
        }
        assert!(filter("", "", "maybe").is_err());
    }
}
