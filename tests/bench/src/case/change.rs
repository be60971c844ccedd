//! How long an endpoint's change takes to reach the kernel.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Contestant;
use crate::interrupt;
use crate::load::{Job, Landing, Outcome, now_ns};
use crate::peer::Proxy;
use crate::plan::Plan;
use crate::results::Change;
use crate::stats;

/// Pause between two tries to connect: the resolution of what is reported. Shorter
/// would take CPU time from the peer.
const EVERY_US: u64 = 500;
/// A change that takes longer is lost.
const TIMEOUT_MS: u64 = 30_000;
/// Time for the client to be at work before the change is made.
const HEAD_START: Duration = Duration::from_millis(20);

/// Time for a proxy that was stopped to catch up with what it has missed.
const SETTLE: Duration = Duration::from_secs(3);

/// How many changes, and how far apart.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of changes.
    pub changes: u32,
    /// Pause after each: longer than kube-proxy's `minSyncPeriod` of one second, so
    /// that no change waits for its rate limit.
    pub pause: Duration,
}

/// Moves a service to another backend and back, one change at a time. `None`
/// without a proxy.
pub fn change(contestant: &mut Contestant, plan: &Plan, pace: Pace) -> Result<Option<Change>> {
    let Some(proxy) = &mut contestant.proxy else {
        return Ok(None);
    };
    sleep(SETTLE);
    let before = (proxy.usage()?, proxy.applied());
    let mut result = Change {
        peer: contestant.kind,
        landed_ms: Vec::new(),
        write_ms: Vec::new(),
        lost: 0,
        cpu_ms: 0.0,
        applied_ms: None,
    };
    for change in 1..=pace.changes {
        interrupt::check()?;
        proxy.check()?;
        let job = Job::Landing(Landing {
            targets: plan.through_moving_service(),
            backend: Some(plan.moving_backend(change)),
            every_us: EVERY_US,
            timeout_ms: TIMEOUT_MS,
        });
        contestant.site.client.begin(&job)?;
        sleep(HEAD_START);
        let began = now_ns();
        proxy.move_service(change)?;
        let written = now_ns();
        let Outcome::Landed(landed) = contestant.site.client.finish()? else {
            bail!("the load client answered something else than it was asked");
        };
        match landed {
            Some(landed) => {
                let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
                result.landed_ms.push(ms(began, landed));
                result.write_ms.push(ms(began, written));
            }
            None => result.lost += 1,
        }
        sleep(pace.pause);
    }
    let cpu = proxy.usage()?.cpu_seconds - before.0.cpu_seconds;
    result.cpu_ms = cpu * 1e3 / f64::from(pace.changes.max(1));
    result.applied_ms = before.1.and_then(|before| applied(proxy.as_ref(), &before));
    Ok(Some(result))
}

fn applied(proxy: &dyn Proxy, before: &crate::peer::Buckets) -> Option<(f64, f64)> {
    let after = proxy.applied()?;
    let at = |quantile| stats::bucket_quantile(before, &after, quantile).map(|s| s * 1e3);
    Some((at(0.5)?, at(0.99)?))
}
