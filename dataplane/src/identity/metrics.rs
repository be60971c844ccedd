//! Certificates in numbers.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use weft_proto::wire::admin::v1::Identities;

/// Metrics of the node's certificates.
#[derive(Debug, Default)]
pub struct IdentityMetrics {
    certificates: Gauge,
    valid: Gauge,
    next_expiry: Gauge,
    roots: Gauge,
    roots_expiry: Gauge,
    issued: Counter,
    failed: Counter,
}

impl IdentityMetrics {
    pub(crate) fn register(&self, r: &mut Registry) {
        let help =
            "Identities of local workloads, each of which has a certificate or is to have one";
        r.register("certificates", help, self.certificates.clone());
        let help = "Of them, with a certificate whose time it is";
        r.register("certificates_valid", help, self.valid.clone());
        let help = "When the first valid certificate ends, in seconds since 1970; 0: there is none";
        r.register("certificates_next_expiry", help, self.next_expiry.clone());
        let help = "Root certificates that are trusted";
        r.register("trust_bundle_roots", help, self.roots.clone());
        let help = "When the first of them ends, in seconds since 1970";
        r.register("trust_bundle_expiry", help, self.roots_expiry.clone());
        let help = "Certificates received from the CA";
        r.register("certificates_received", help, self.issued.clone());
        let help = "Requests for certificates that failed";
        r.register("certificate_requests_failed", help, self.failed.clone());
    }

    pub(crate) fn take(&self, now: &Identities) {
        self.certificates.set(now.certificates.into());
        self.valid.set(now.valid.into());
        self.next_expiry.set(now.next_expiry);
        self.roots.set(now.roots.into());
        self.roots_expiry.set(now.roots_not_after);
        self.issued.inner().store(now.issued, Ordering::Relaxed);
        self.failed.inner().store(now.failed, Ordering::Relaxed);
    }
}
