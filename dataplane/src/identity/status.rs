//! What status, metrics and `weft certificates` can see.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weft_identity::SpiffeId;
use weft_proto::wire::admin::v1 as wire;

/// One identity's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStatus {
    /// SPIFFE ID.
    pub id: String,
    /// Serial number, hexadecimal; empty when there is no certificate yet.
    pub serial: String,
    /// Seconds since 1970.
    pub not_before: i64,
    /// Seconds since 1970.
    pub not_after: i64,
    /// There is one, and by this node's clock it is its time.
    pub valid: bool,
    /// It is asked for again after this time.
    pub next_attempt: Duration,
    /// Certificates so far.
    pub issued: u64,
    /// Why the last attempt failed, or what is wrong with the certificate.
    pub error: Option<String>,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityStatus {
    /// Of the mesh.
    pub trust_domain: String,
    /// By SPIFFE ID.
    pub certificates: Vec<CertificateStatus>,
    /// The trust bundle in short; empty when none is known. The control plane shows the same.
    pub bundle: String,
    /// Roots in it.
    pub roots: usize,
    /// When the first of them ends, seconds since 1970.
    pub roots_not_after: i64,
    /// Why the trust bundle is not followed.
    pub roots_error: Option<String>,
    /// The control plane issues no certificates.
    pub no_ca: bool,
    /// Certificates that were received.
    pub issued: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Identities of other trust domains, which are not asked for.
    pub foreign: usize,
}

impl CertificateStatus {
    pub(crate) fn row(&self) -> wire::Certificate {
        let id = self.id.parse::<SpiffeId>().ok();
        wire::Certificate {
            id: self.id.clone(),
            namespace: id
                .as_ref()
                .map(|id| id.namespace.clone())
                .unwrap_or_default(),
            service_account: id.map(|id| id.service_account).unwrap_or_default(),
            serial: self.serial.clone(),
            not_before: self.not_before,
            not_after: self.not_after,
            valid: self.valid,
            next_attempt_ms: u64::try_from(self.next_attempt.as_millis()).unwrap_or(u64::MAX),
            issued: self.issued,
            error: self.error.clone().unwrap_or_default(),
        }
    }
}

impl IdentityStatus {
    /// All in all.
    #[must_use]
    pub fn summary(&self) -> wire::Identities {
        let valid = self.certificates.iter().filter(|c| c.valid);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        wire::Identities {
            trust_domain: self.trust_domain.clone(),
            certificates: count(self.certificates.len()),
            next_expiry: valid.clone().map(|c| c.not_after).min().unwrap_or(0),
            valid: count(valid.count()),
            trust_bundle: self.bundle.clone(),
            roots: count(self.roots),
            roots_not_after: self.roots_not_after,
            issued: self.issued,
            failed: self.failed,
            no_ca: self.no_ca,
            error: self.roots_error.clone().unwrap_or_default(),
        }
    }

    /// What an operator should know; nothing where no CA is expected.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let broken = self
            .certificates
            .iter()
            .filter(|c| !c.valid || c.error.is_some());
        let (mut count, mut first) = (0, None);
        for certificate in broken {
            count += 1;
            first = first.or(Some(certificate));
        }
        if let (Some(first), false) = (first, self.no_ca) {
            let why = first.error.as_deref().unwrap_or("it is asked for");
            warnings.push(format!(
                "{count} certificate(s) of local workloads are missing or not in order, such as {}: {why}",
                first.id
            ));
        }
        if self.foreign > 0 {
            warnings.push(format!(
                "{} identities of local workloads are of another trust domain than --trust-domain says, and get no certificates",
                self.foreign
            ));
        }
        warnings
    }
}

/// The same for everybody.
#[derive(Clone, Debug, Default)]
pub struct SharedIdentities(Arc<Mutex<IdentityStatus>>);

impl SharedIdentities {
    /// As it is now.
    #[must_use]
    pub fn snapshot(&self) -> IdentityStatus {
        let status = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        status.clone()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut IdentityStatus)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(valid: bool, error: Option<&str>) -> CertificateStatus {
        CertificateStatus {
            id: "spiffe://cluster.local/ns/shop/sa/cart".to_owned(),
            serial: String::new(),
            not_before: 0,
            not_after: if valid { 9 } else { 0 },
            valid,
            next_attempt: Duration::from_secs(1),
            issued: 0,
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn what_is_missing_is_a_warning_where_there_is_a_ca() {
        let mut status = IdentityStatus {
            certificates: vec![certificate(true, None)],
            ..IdentityStatus::default()
        };
        assert!(status.warnings().is_empty());
        status
            .certificates
            .push(certificate(false, Some("refused")));
        let warning = status.warnings().concat();
        assert!(
            warning.starts_with("1 certificate(s)") && warning.contains("refused"),
            "{warning}"
        );
        assert_eq!(
            (status.summary().certificates, status.summary().valid),
            (2, 1)
        );
        assert_eq!(status.summary().next_expiry, 9);
        status.no_ca = true;
        assert!(status.warnings().is_empty());
        status.foreign = 2;
        assert!(status.warnings().concat().contains("another trust domain"));
    }
}
