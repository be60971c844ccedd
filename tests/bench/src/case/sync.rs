//! How long a peer takes from its start until all services work, and what it uses.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Contestant;
use crate::interrupt;
use crate::load::{Job, Landing, Outcome, now_ns};
use crate::plan::Plan;
use crate::results::Sync;

/// Pause between two tries to connect: small against every time reported.
const EVERY_US: u64 = 2_000;
/// Pause between two looks at the proxy.
const LOOK: Duration = Duration::from_millis(5);

/// Starts the contestant's proxy and waits until the last service answers, at most
/// `bound`. `None` without a proxy.
pub fn sync(contestant: &mut Contestant, plan: &Plan, bound: Duration) -> Result<Option<Sync>> {
    let Some(proxy) = &mut contestant.proxy else {
        return Ok(None);
    };
    proxy.prepare()?;
    let job = Job::Landing(Landing {
        targets: plan.last_service(),
        backend: None,
        every_us: EVERY_US,
        timeout_ms: bound.as_millis() as u64,
    });
    let began = now_ns();
    proxy.start()?;
    contestant.site.client.begin(&job)?;
    let seconds_since = |then: u64| then.saturating_sub(began) as f64 / 1e9;
    let ready = loop {
        interrupt::check()?;
        proxy.check()?;
        match proxy.ready() {
            None => break None,
            Some(true) => break Some(seconds_since(now_ns())),
            Some(false) if seconds_since(now_ns()) > bound.as_secs_f64() => break None,
            Some(false) => sleep(LOOK),
        }
    };
    let Outcome::Landed(landed) = contestant.site.client.finish()? else {
        bail!("the load client answered something else than it was asked");
    };
    proxy.check()?;
    Ok(Some(Sync {
        peer: contestant.kind,
        connected_seconds: landed.map(seconds_since),
        ready_seconds: ready,
        bound_seconds: bound.as_secs_f64(),
        usage: settled(proxy.as_ref())?,
    }))
}

/// What the proxy has used once it is idle again: kube-proxy goes on for a moment
/// after its services work.
fn settled(proxy: &dyn crate::peer::Proxy) -> Result<crate::usage::Usage> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut usage = proxy.usage()?;
    loop {
        sleep(Duration::from_millis(500));
        let now = proxy.usage()?;
        if now.cpu_seconds - usage.cpu_seconds < 0.05 || Instant::now() > deadline {
            return Ok(now);
        }
        usage = now;
    }
}
