//! Who gets an answer from whom: over TCP and UDP, IPv4 and IPv6, asked all at once.

use std::fmt;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use weft_lab::{GetOptions, Pod};

use crate::mesh::Mesh;
use crate::wait::{LONG, eventually};
use crate::{Result, mesh};

/// Clients that ask at the same time.
const AT_ONCE: usize = 32;
/// Who has no answer by then is taken for refused.
const REFUSED_AFTER: Duration = Duration::from_millis(400);
/// Who should have an answer is given more time: little while it is asked again, or else a datagram that was refused holds up the
/// rest; much when it is asked for the last time.
const ANSWERED_AFTER: Duration = Duration::from_millis(600);
const ANSWERED_AT_LAST: Duration = Duration::from_secs(5);

/// One way in which a client asks a server.
#[derive(Clone)]
pub struct Ask {
    client: Pod,
    server: Pod,
    /// Port of the server.
    pub port: u16,
    /// UDP instead of TCP.
    pub udp: bool,
    /// IPv6 instead of IPv4.
    pub v6: bool,
}

impl Ask {
    /// Name of the pod that asks.
    #[must_use]
    pub fn client(&self) -> &str {
        self.client.name()
    }

    fn to(&self) -> SocketAddr {
        if self.v6 {
            self.server.socket_v6(self.port)
        } else {
            self.server.socket_v4(self.port)
        }
    }

    /// Whether an answer comes within `timeout`.
    fn is_answered(&self, timeout: Duration) -> Result<bool> {
        let options = if self.udp {
            GetOptions::udp(1)
        } else {
            GetOptions::tcp(1)
        };
        let attempts = self.client.get(self.to(), &options.timeout(timeout))?;
        Ok(attempts.iter().all(|attempt| attempt.ok()))
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.udp { "udp" } else { "tcp" };
        let (client, server) = (self.client.name(), self.server.name());
        write!(f, "{client} -> {server} {protocol} {}", self.to())
    }
}

/// Both protocols and families from each of `clients` to `server` at [`mesh::TARGET`].
///
/// # Errors
/// When a pod does not exist.
pub fn asks(mesh: &Mesh, clients: &[&str], server: &str) -> Result<Vec<Ask>> {
    asks_at(mesh, clients, server, mesh::TARGET)
}

/// As [`asks`], at another port.
///
/// # Errors
/// As there.
pub fn asks_at(mesh: &Mesh, clients: &[&str], server: &str, port: u16) -> Result<Vec<Ask>> {
    let server = mesh.pod(server)?;
    let mut asks = Vec::new();
    for name in clients {
        for (udp, v6) in [(false, false), (false, true), (true, false), (true, true)] {
            asks.push(Ask {
                client: mesh.pod(name)?,
                server: server.clone(),
                port,
                udp,
                v6,
            });
        }
    }
    Ok(asks)
}

/// Waits until each of `asks` that `passes` names was answered and all others were not. An ask that went right is not made
/// again: what is to be so at one time is for [`hold`] to see.
///
/// # Errors
/// When it does not get there; with the asks that went the other way.
pub fn settle(asks: &[Ask], passes: impl Fn(&Ask) -> bool) -> Result {
    let mut wrong = asks.to_vec();
    eventually(LONG, || {
        wrong = gone_wrong(&wrong, &passes, ANSWERED_AFTER)?;
        ensure!(wrong.is_empty(), "{}", complaint(&wrong, &passes));
        Ok(())
    })
}

/// Sees that those of `asks` that `passes` names are answered now and all others are not.
///
/// # Errors
/// With the asks that went the other way.
pub fn hold(asks: &[Ask], passes: impl Fn(&Ask) -> bool) -> Result {
    let wrong = gone_wrong(asks, &passes, ANSWERED_AT_LAST)?;
    ensure!(wrong.is_empty(), "{}", complaint(&wrong, &passes));
    Ok(())
}

fn gone_wrong(asks: &[Ask], passes: impl Fn(&Ask) -> bool, answered: Duration) -> Result<Vec<Ask>> {
    let mut wrong = Vec::new();
    for group in asks.chunks(AT_ONCE) {
        let found = thread::scope(|scope| {
            let ask = |ask: &Ask| {
                let (ask, passes) = (ask.clone(), passes(ask));
                let timeout = if passes { answered } else { REFUSED_AFTER };
                scope.spawn(move || Ok((ask.is_answered(timeout)? != passes).then_some(ask)))
            };
            let threads: Vec<_> = group.iter().map(ask).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, Result<Option<Ask>>>| {
                thread.join().map_err(|_| anyhow!("an ask panicked"))?
            };
            threads.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        wrong.extend(found.into_iter().flatten());
    }
    Ok(wrong)
}

fn complaint(wrong: &[Ask], passes: impl Fn(&Ask) -> bool) -> String {
    let line = |ask: &Ask| {
        let was = if passes(ask) {
            "refused"
        } else {
            "let through"
        };
        format!("{was}: {ask}")
    };
    wrong.iter().map(line).collect::<Vec<_>>().join("; ")
}
