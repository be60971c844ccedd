//! SPIFFE IDs of workloads, as Istio writes them.
//!
//! See <https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md>.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const SCHEME: &str = "spiffe://";
/// The standard's bound on a trust domain's name, bytes.
const MAX_TRUST_DOMAIN: usize = 255;
/// The standard's bound on a whole ID, bytes.
const MAX_ID: usize = 2048;

/// Why a text is no name of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not a trust domain.
    #[error(
        "trust domain {0:?}: use lower-case letters, digits, \".\", \"-\" and \"_\", at most 255 in all"
    )]
    TrustDomain(String),
    /// Not the ID of a workload.
    #[error("{0:?} is not spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT")]
    Id(String),
}

/// The part of a SPIFFE ID that says whose CA vouches for it, "cluster.local" by custom.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrustDomain(Arc<str>);

impl TrustDomain {
    /// As text, without the scheme.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// "spiffe://NAME": the ID of the trust domain itself, which its CAs carry.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{SCHEME}{self}")
    }
}

impl Default for TrustDomain {
    /// "cluster.local".
    fn default() -> Self {
        Self(Arc::from("cluster.local"))
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TrustDomain {
    type Err = NameError;

    /// Section 2.1 of the standard. A name without a letter or digit would be a strange folder, too.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_".contains(&b);
        let named = name.bytes().any(|b| b.is_ascii_alphanumeric());
        if named && name.len() <= MAX_TRUST_DOMAIN && name.bytes().all(legal) {
            Ok(Self(Arc::from(name)))
        } else {
            Err(NameError::TrustDomain(name.chars().take(256).collect()))
        }
    }
}

/// The identity of all pods with one service account.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpiffeId {
    /// Whose CA vouches for it.
    pub trust_domain: TrustDomain,
    /// Kubernetes namespace.
    pub namespace: String,
    /// Kubernetes service account.
    pub service_account: String,
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (domain, namespace, account) =
            (&self.trust_domain, &self.namespace, &self.service_account);
        write!(f, "{SCHEME}{domain}/ns/{namespace}/sa/{account}")
    }
}

impl FromStr for SpiffeId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| NameError::Id(text.chars().take(256).collect()))
    }
}

fn parse(text: &str) -> Option<SpiffeId> {
    if text.len() > MAX_ID {
        return None;
    }
    let mut parts = text.strip_prefix(SCHEME)?.split('/');
    let trust_domain = parts.next()?.parse().ok()?;
    let (ns, namespace) = (parts.next()?, parts.next()?);
    let (sa, service_account) = (parts.next()?, parts.next()?);
    let whole = ns == "ns" && sa == "sa" && parts.next().is_none();
    (whole && is_segment(namespace) && is_segment(service_account)).then(|| SpiffeId {
        trust_domain,
        namespace: namespace.to_owned(),
        service_account: service_account.to_owned(),
    })
}

/// Section 2.2 of the standard.
fn is_segment(segment: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
    !segment.is_empty() && segment != "." && segment != ".." && segment.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_as_they_were() {
        let text = "spiffe://mesh.example/ns/shop/sa/cart.v1";
        let id: SpiffeId = text.parse().unwrap();
        assert_eq!(id.trust_domain.as_str(), "mesh.example");
        assert_eq!(
            (id.namespace.as_str(), id.service_account.as_str()),
            ("shop", "cart.v1")
        );
        assert_eq!(id.to_string(), text);
    }

    #[test]
    fn what_only_looks_like_an_id_is_none() {
        for text in [
            "",
            "spiffe://",
            "spiffe://td",
            "spiffe://td/ns/a/sa/",
            "spiffe://td/ns//sa/b",
            "spiffe://td/ns/a/sa/b/",
            "spiffe://td/ns/a/sa/b/c",
            "spiffe://td/ns/../sa/b",
            "spiffe://td/sa/b/ns/a",
            "spiffe://TD/ns/a/sa/b",
            "spiffe://td:80/ns/a/sa/b",
            "spiffe://user@td/ns/a/sa/b",
            "spiffe://td/ns/a/sa/b?x",
            "spiffe://td/ns/a/sa/b#x",
            "spiffe://td/ns/a%2f/sa/b",
            "SPIFFE://td/ns/a/sa/b",
            "https://td/ns/a/sa/b",
        ] {
            assert!(text.parse::<SpiffeId>().is_err(), "{text}");
        }
        let long = format!("spiffe://td/ns/{}/sa/b", "a".repeat(2048));
        assert!(long.parse::<SpiffeId>().is_err());
    }

    #[test]
    fn trust_domains_are_names() {
        for good in ["cluster.local", "a", "1.2", "under_score"] {
            assert!(good.parse::<TrustDomain>().is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "UPPER", "a/b", "a b", "ü", &"a".repeat(256)] {
            assert!(bad.parse::<TrustDomain>().is_err(), "{bad}");
        }
    }
}
