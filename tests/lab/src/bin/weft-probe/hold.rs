//! One connection, held until it breaks.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weft_lab::client::HOLDING;
use weft_lab::probe::{Held, monotonic_ns};

use crate::errno;
use crate::session::{Kind, Session, Target, attempt};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Server, e.g. 10.96.0.1:80 or [fd00:96::1]:80
    #[arg(value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// A connected UDP socket instead of TCP
    #[arg(long)]
    udp: bool,
    /// Hold it so long if it does not break, in milliseconds
    #[arg(long = "for", value_name = "MS", default_value_t = 10_000)]
    longest: u64,
    /// Make a request on it every so many milliseconds; 0: stay silent and only listen
    #[arg(long, value_name = "MS", default_value_t = 0)]
    ping: u64,
    /// Longest wait for one connect or answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    timeout: u64,
}

pub(crate) fn run(args: &Args) -> io::Result<()> {
    let target = Target {
        to: args.to,
        kind: Kind::new(args.udp, true),
        timeout: Duration::from_millis(args.timeout),
        size: 0,
        from_port: 0,
    };
    let mut session = None;
    let first = attempt(&mut session, target);
    let since_ns = monotonic_ns();
    let Some(mut session) = session else {
        let errno = first.errno.unwrap_or_default();
        return Err(io::Error::other(format!(
            "no connection to {}: {errno}",
            args.to
        )));
    };
    eprintln!("{HOLDING} {}", first.server.as_deref().unwrap_or_default());
    let deadline = Instant::now() + Duration::from_millis(args.longest);
    let mut answered = 0;
    let error = watch(&mut session, args.ping, deadline, &mut answered);
    let held = Held {
        first,
        broken: error.is_some(),
        broken_ns: error.as_ref().map(|_| monotonic_ns()),
        errno: error.as_ref().map(errno::name),
        since_ns,
        answered,
    };
    println!("{}", serde_json::to_string(&held)?);
    Ok(())
}

/// Returns what broke the session, or `None` at the deadline.
fn watch(
    session: &mut Session,
    ping_ms: u64,
    deadline: Instant,
    answered: &mut u64,
) -> Option<io::Error> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let pause = if ping_ms == 0 {
            left
        } else {
            left.min(Duration::from_millis(ping_ms))
        };
        let broken = session.wait_broken(pause);
        if broken.is_some() {
            return broken;
        }
        if Instant::now() >= deadline {
            return None;
        }
        match session.ask() {
            Ok(_) => *answered += 1,
            Err(error) => return Some(error),
        }
    }
}
