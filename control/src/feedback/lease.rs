//! Which replica writes: the holder of a Lease.
//!
//! As client-go elects leaders: whoever holds the Lease renews it, and when nobody has for its whole duration, by the clock
//! of the one who watches, it is free. Two writers for a moment are harmless: they write the same.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Name of the Lease.
const NAME: &str = "weft-control";
/// How long a Lease holds that is not renewed.
const DURATION: Duration = Duration::from_secs(15);
/// How often the holder renews it and others look at it.
const INTERVAL: Duration = Duration::from_secs(3);
/// A holder that could not renew it for this long stops before another may begin.
const GIVE_UP: Duration = Duration::from_secs(10);

/// A candidate.
pub(super) struct Candidate {
    api: Api<Lease>,
    identity: String,
    /// What was seen of another holder, and since when.
    other: Option<(LeaseSpec, Instant)>,
    renewed: Option<Instant>,
}

impl Candidate {
    /// One that is like no other. The Lease is in the client's own namespace.
    pub(super) fn new(client: Client) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            api: Api::default_namespaced(client),
            identity: format!("{}_{:016x}", host.trim(), fastrand::u64(..)),
            other: None,
            renewed: None,
        }
    }

    /// Says in `leads` whether this one may write, until `drain` is cancelled; then it lets others.
    pub(super) async fn run(mut self, leads: watch::Sender<bool>, drain: CancellationToken) {
        let mut said = String::new();
        loop {
            match self.attempt().await {
                Ok(()) => said.clear(),
                Err(error) => {
                    let error = error.to_string();
                    if error != said {
                        tracing::warn!(
                            "cannot take part in choosing who writes statuses (Lease {NAME}): {error}"
                        );
                        said = error;
                    }
                }
            }
            let leads_now = self.renewed.is_some_and(|at| at.elapsed() < GIVE_UP);
            leads.send_if_modified(|was| {
                let changed = *was != leads_now;
                if changed {
                    tracing::info!(
                        "{} statuses",
                        if leads_now {
                            "writes"
                        } else {
                            "does not write"
                        }
                    );
                }
                *was = leads_now;
                changed
            });
            tokio::select! {
                () = tokio::time::sleep(INTERVAL.mul_f64(0.8 + 0.4 * fastrand::f64())) => {}
                () = drain.cancelled() => break,
            }
        }
        leads.send_replace(false);
        self.release().await;
    }

    async fn attempt(&mut self) -> kube::Result<()> {
        let Some(lease) = self.api.get_opt(NAME).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(NAME.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.spec(None)),
            };
            let created = self.api.create(&PostParams::default(), &lease).await;
            return self.written(created.map(drop));
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if !self.is_free(&spec) {
            self.renewed = None;
            return Ok(());
        }
        let ours = Lease {
            spec: Some(self.spec(Some(&spec))),
            ..lease
        };
        // With the version that was read: whoever else was faster has it.
        let replaced = self.api.replace(NAME, &PostParams::default(), &ours).await;
        self.written(replaced.map(drop))
    }

    fn written(&mut self, result: kube::Result<()>) -> kube::Result<()> {
        match result {
            Ok(()) => {
                self.renewed = Some(Instant::now());
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Ours, nobody's, or not renewed for as long as it holds.
    fn is_free(&mut self, spec: &LeaseSpec) -> bool {
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            self.other = None;
            return true;
        }
        match &self.other {
            Some((seen, since)) if seen == spec => since.elapsed() >= DURATION,
            _ => {
                self.other = Some((spec.clone(), Instant::now()));
                false
            }
        }
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = || Some(MicroTime(Timestamp::now()));
        let holder = before.and_then(|b| b.holder_identity.as_deref());
        let is_ours = holder == Some(&self.identity);
        let transitions = before.and_then(|b| b.lease_transitions).unwrap_or_default();
        LeaseSpec {
            acquire_time: match before {
                Some(before) if is_ours => before.acquire_time.clone(),
                _ => now(),
            },
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            lease_transitions: Some(transitions.saturating_add(i32::from(!is_ours))),
            renew_time: now(),
            ..LeaseSpec::default()
        }
    }

    /// So that the next one need not wait.
    async fn release(&mut self) {
        if self.renewed.is_none() {
            return;
        }
        let Ok(Some(mut lease)) = self.api.get_opt(NAME).await else {
            return;
        };
        let holder = lease
            .spec
            .as_ref()
            .and_then(|s| s.holder_identity.as_deref());
        if holder != Some(&self.identity) {
            return;
        }
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
        }
        // Then it runs out by itself.
        let _ = self.api.replace(NAME, &PostParams::default(), &lease).await;
    }
}
