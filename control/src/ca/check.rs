//! Whether files that somebody brought are a CA of this trust domain.

use rcgen::{KeyPair, PublicKeyData};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use weft_identity::TrustDomain;
use weft_identity::certificate::Certificate;

/// What is wrong with a certificate; the file is named by who asks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Its time is over.
    #[error("{0} ended at {1}: bring a new one")]
    Expired(String, String),
    /// Its time has not come.
    #[error("{0} is valid from {1} only: look at the clock of this machine, or wait")]
    NotYet(String, String),
    /// No CA.
    #[error("{0} is not a CA: its basic constraints do not say CA:TRUE")]
    NotCa(String),
    /// A CA that may not sign.
    #[error("{0} may not sign certificates: its key usage lacks keyCertSign")]
    MayNotSign(String),
    /// Somebody else's.
    #[error(
        "{0} is for the trust domain {1}, not for {2}: change --trust-domain, or bring another"
    )]
    OtherDomain(String, String, String),
    /// Name constraints forbid all that it is to sign.
    #[error("{0} may not sign for the trust domain {1}: its name constraints permit {2}")]
    Constrained(String, String, String),
    /// No way leads to a root.
    #[error("{0} is signed by none of the roots, nor by the certificate after it")]
    NoChain(String),
    /// A CA below another that may have none.
    #[error("{0} may have no CA below it (path length {1})")]
    PathLength(String, u32),
    /// The key is another's.
    #[error("the key does not fit the certificate {0}")]
    Key(String),
}

fn stamp(time: OffsetDateTime) -> String {
    time.format(&Rfc3339).unwrap_or_else(|_| time.to_string())
}

/// A CA by itself.
pub(super) fn authority(
    ca: &Certificate,
    domain: &TrustDomain,
    now: OffsetDateTime,
) -> Result<(), Unfit> {
    let name = || format!("{:?}", ca.subject);
    if !ca.is_ca {
        return Err(Unfit::NotCa(name()));
    }
    if !ca.may_sign() {
        return Err(Unfit::MayNotSign(name()));
    }
    if now > ca.not_after {
        return Err(Unfit::Expired(name(), stamp(ca.not_after)));
    }
    if now < ca.not_before {
        return Err(Unfit::NotYet(name(), stamp(ca.not_before)));
    }
    let other = |uri: &&String| uri.starts_with("spiffe://") && **uri != domain.id();
    if let Some(uri) = ca.uris.iter().find(other) {
        let theirs = uri.trim_start_matches("spiffe://").to_owned();
        return Err(Unfit::OtherDomain(name(), theirs, domain.to_string()));
    }
    if !ca.constraints.allow(domain.as_str()) {
        let permitted = match ca.constraints.permitted.as_slice() {
            [] => "everything but this".to_owned(),
            some => some.join(", "),
        };
        return Err(Unfit::Constrained(name(), domain.to_string(), permitted));
    }
    Ok(())
}

/// What issues, and what leads from it to one of `roots`.
pub(super) fn chain(chain: &[Certificate], roots: &[Certificate]) -> Result<(), Unfit> {
    for (depth, ca) in chain.iter().enumerate() {
        let name = || format!("{:?}", ca.subject);
        let next = chain.get(depth + 1);
        let signed = match next {
            Some(next) => ca.is_signed_by(next),
            None => roots.iter().any(|root| ca == root || ca.is_signed_by(root)),
        };
        if !signed {
            return Err(Unfit::NoChain(name()));
        }
        let below = u32::try_from(depth).unwrap_or(u32::MAX);
        match ca.path_len {
            Some(most) if below > most => return Err(Unfit::PathLength(name(), most)),
            _ => {}
        }
    }
    Ok(())
}

/// The key of a certificate.
pub(super) fn key(certificate: &Certificate, key: &KeyPair) -> Result<(), Unfit> {
    if key.subject_public_key_info() == certificate.public_key() {
        Ok(())
    } else {
        Err(Unfit::Key(format!("{:?}", certificate.subject)))
    }
}
