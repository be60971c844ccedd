//! The trust bundle, as the control plane tells it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tonic::{Code, Status};
use weft_identity::TrustBundle;
use weft_identity::sds::watch_secret;
use weft_identity::secret::{self, ROOT_CA};

use super::status::SharedIdentities;
use crate::xds::Connect;
use crate::xds::backoff::Backoff;

/// Pauses between attempts.
const BASE: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(15);
/// A stream that held for so long starts the back-off anew.
const STABLE: Duration = Duration::from_secs(10);

/// Follows the bundle for ever.
pub(super) async fn follow(
    node: String,
    mut connect: Box<dyn Connect>,
    roots: watch::Sender<Option<Arc<TrustBundle>>>,
    status: SharedIdentities,
) {
    let mut backoff = Backoff::new(BASE, CAP);
    loop {
        let began = Instant::now();
        let ended = attempt(&node, connect.as_mut(), &roots, &status).await;
        if began.elapsed() >= STABLE {
            backoff.reset();
        }
        let pause = match ended.code() {
            // Another server than ours: whoever signs says whom to trust.
            Code::Unimplemented => CAP,
            _ => backoff.next(),
        };
        let reason = format!("{:?}: {}", ended.code(), ended.message());
        tracing::debug!("trust bundle: {reason}; next attempt in {pause:?}");
        status.update(|s| s.roots_error = Some(reason));
        tokio::time::sleep(pause).await;
    }
}

async fn attempt(
    node: &str,
    connect: &mut dyn Connect,
    roots: &watch::Sender<Option<Arc<TrustBundle>>>,
    status: &SharedIdentities,
) -> Status {
    let channel = match connect.connect().await {
        Ok(channel) => channel,
        Err(e) => return Status::unavailable(e.to_string()),
    };
    let mut watched = match watch_secret(channel, node, ROOT_CA).await {
        Ok(watched) => watched,
        Err(refused) => return refused,
    };
    let read = |any: &_| secret::bundle(any).ok_or_else(|| "no trust bundle".to_owned());
    loop {
        match watched.next(read).await {
            Ok(bundle) => {
                tracing::info!("trust bundle {bundle} of {} root(s)", bundle.len());
                status.update(|s| s.roots_error = None);
                roots.send_replace(Some(Arc::new(bundle)));
            }
            Err(ended) => return ended,
        }
    }
}
