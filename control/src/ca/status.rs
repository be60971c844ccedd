//! The CA as an operator sees it.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use weft_identity::certificate::Certificate;

use super::Authority;

/// One moment of a CA.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaStatus {
    /// Whom it vouches for.
    pub trust_domain: String,
    /// The trust bundle in short: agents show the same.
    pub bundle: String,
    /// Who is trusted, the active one first.
    pub roots: Vec<AuthorityStatus>,
    /// What issues.
    pub issuing: AuthorityStatus,
    /// "stable", "next root is trusted" or "old root is still trusted".
    pub rotation: &'static str,
    /// Certificates that were issued to workloads.
    pub issued: u64,
    /// Requests that were refused, by reason.
    pub refused: std::collections::BTreeMap<&'static str, u64>,
    /// Why files that were changed are not in effect.
    pub trouble: Option<String>,
}

/// One CA certificate.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityStatus {
    /// Subject.
    pub subject: String,
    /// Serial number, hexadecimal.
    pub serial: String,
    /// RFC 3339.
    pub not_after: String,
    /// The same in seconds since 1970.
    #[serde(skip)]
    pub not_after_unix: i64,
}

impl From<&Certificate> for AuthorityStatus {
    fn from(ca: &Certificate) -> Self {
        Self {
            subject: ca.subject.clone(),
            serial: ca.serial.clone(),
            not_after: ca.not_after.format(&Rfc3339).unwrap_or_default(),
            not_after_unix: ca.not_after.unix_timestamp(),
        }
    }
}

impl Authority {
    /// As it is now.
    #[must_use]
    pub fn status(&self) -> CaStatus {
        let material = self.material();
        let refused = self.counts.refused.lock();
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        CaStatus {
            trust_domain: self.config.trust_domain.to_string(),
            bundle: material.bundle().to_string(),
            roots: material.roots().iter().map(Into::into).collect(),
            issuing: material.issuing().into(),
            rotation: match (material.has_next, material.has_old) {
                (true, _) => "next root is trusted",
                (_, true) => "old root is still trusted",
                _ => "stable",
            },
            issued: self.counts.issued.load(Ordering::Relaxed),
            refused: refused.unwrap_or_else(PoisonError::into_inner).clone(),
            trouble: trouble.clone().or_else(|| self.ends_soon()),
        }
    }

    /// An issuing CA that nobody renews.
    fn ends_soon(&self) -> Option<String> {
        let issuing = self.material();
        let issuing = issuing.issuing();
        let left = issuing.not_after - OffsetDateTime::now_utc();
        let life = issuing.not_after - issuing.not_before;
        (left < life / 4).then(|| {
            format!(
                "the issuing certificate {:?} ends in {} h and is not renewed here: its root's key is elsewhere",
                issuing.subject,
                left.whole_hours()
            )
        })
    }
}
