//! One identity's certificate, from the first request to its renewal.

use std::time::{Duration, Instant, SystemTime};

use time::OffsetDateTime;
use weft_identity::Svid;

use super::status::CertificateStatus;
use crate::xds::backoff::Backoff;

/// Pauses after a failure.
const BASE: Duration = Duration::from_millis(200);
const CAP: Duration = Duration::from_secs(30);
/// No two attempts are nearer to each other.
const LEAST: Duration = Duration::from_millis(100);

/// One identity.
pub(super) struct Entry {
    pub(super) svid: Option<Svid>,
    /// Next attempt.
    pub(super) due: Instant,
    /// A request is under way.
    pub(super) asked: bool,
    /// Certificates so far.
    pub(super) issued: u64,
    pub(super) error: Option<String>,
    backoff: Backoff,
}

impl Entry {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            svid: None,
            due: now,
            asked: false,
            issued: 0,
            error: None,
            backoff: Backoff::new(BASE, CAP),
        }
    }

    /// A new certificate.
    pub(super) fn take(&mut self, svid: Svid, now: Instant) {
        self.asked = false;
        let clock = OffsetDateTime::from(SystemTime::now());
        let left = Duration::try_from(svid.left(clock)).unwrap_or_default();
        self.error = skew(svid.leaf.not_before, svid.leaf.not_after, clock);
        if left.is_zero() {
            // Or it would be asked for over and over; whoever has a better clock may still take it.
            self.due = now + self.pause();
        } else {
            self.backoff.reset();
            self.due = now + renewal(left, fastrand::f64());
        }
        self.issued += 1;
        self.svid = Some(svid);
    }

    pub(super) fn fail(&mut self, error: String, now: Instant) {
        self.asked = false;
        self.error = Some(error);
        self.due = now + self.pause();
    }

    fn pause(&mut self) -> Duration {
        self.backoff.next().max(LEAST)
    }

    pub(super) fn status(&self, id: &str) -> CertificateStatus {
        let leaf = self.svid.as_ref().map(|svid| &svid.leaf);
        let clock = OffsetDateTime::from(SystemTime::now());
        let left = self.due.saturating_duration_since(Instant::now());
        CertificateStatus {
            id: id.to_owned(),
            serial: leaf.map(|l| l.serial.clone()).unwrap_or_default(),
            not_before: leaf
                .map(|l| l.not_before.unix_timestamp())
                .unwrap_or_default(),
            not_after: leaf
                .map(|l| l.not_after.unix_timestamp())
                .unwrap_or_default(),
            valid: leaf.is_some_and(|l| l.not_before <= clock && clock < l.not_after),
            next_attempt: left,
            issued: self.issued,
            error: self.error.clone(),
        }
    }
}

/// What is wrong with a certificate that has just been issued, by this node's clock.
fn skew(
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
    clock: OffsetDateTime,
) -> Option<String> {
    if not_after <= clock {
        let late = (clock - not_after).whole_seconds();
        return Some(format!(
            "the CA's new certificate ended {late} s ago by this node's clock: set the clocks"
        ));
    }
    let early = (not_before - clock).whole_seconds();
    (early > 0).then(|| {
        format!("the CA's new certificate begins in {early} s by this node's clock: set the clocks")
    })
}

/// When to renew what ends in `left`: at two thirds of that, or up to a tenth of it earlier, so that not all nodes ask at once.
fn renewal(left: Duration, random: f64) -> Duration {
    left.mul_f64(2.0 / 3.0 - random * 0.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_is_at_two_thirds_or_a_little_before() {
        let hour = Duration::from_secs(3600);
        assert_eq!(renewal(hour, 0.0).as_secs(), 2400);
        assert_eq!(renewal(hour, 1.0).as_secs(), 2040);
    }

    #[test]
    fn clocks_that_differ_too_much_are_told() {
        let at = |minute: i64| OffsetDateTime::UNIX_EPOCH + time::Duration::minutes(minute);
        let said = |clock| skew(at(0), at(60), at(clock)).unwrap_or_default();
        assert_eq!(said(0), "");
        assert_eq!(said(59), "");
        assert!(said(60).contains("ended 0 s ago"));
        assert!(said(120).contains("ended 3600 s ago"));
        assert!(said(-2).contains("begins in 120 s"));
    }

    #[test]
    fn failures_are_told_and_tried_again_later() {
        let now = Instant::now();
        let mut entry = Entry::new(now);
        assert!(entry.due <= now);
        for _ in 0..50 {
            entry.asked = true;
            entry.fail("no".to_owned(), now);
            assert!(!entry.asked && entry.due >= now + LEAST && entry.due <= now + CAP);
        }
        assert_eq!(entry.status("x").error.as_deref(), Some("no"));
    }
}
