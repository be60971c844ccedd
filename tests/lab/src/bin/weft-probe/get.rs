//! A number of requests, one line of JSON each.

use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use crate::session::{Kind, Session, Target, attempt};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Server, e.g. 10.96.0.1:80, [fd00:96::1]:80 or cart.shop:80; [::ffff:10.96.0.1]:80 takes an IPv6 socket to an IPv4 address
    #[arg(value_name = "ADDR:PORT", value_parser = address)]
    to: SocketAddr,
    /// UDP instead of TCP
    #[arg(long)]
    udp: bool,
    /// UDP: connect the socket instead of naming the server with each datagram
    #[arg(long, requires = "udp")]
    connected: bool,
    /// UDP: from this port of the client; 0: any
    #[arg(long, requires = "udp", default_value_t = 0)]
    from_port: u16,
    /// Requests to make
    #[arg(long, default_value_t = 1)]
    count: u32,
    /// All over one connection or socket, instead of a new one for each
    #[arg(long)]
    keep: bool,
    /// Longest wait for one connect or answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    timeout: u64,
    /// Wait so long between requests, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    interval: u64,
    /// Fill each request up to so many bytes; its answer is as long
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    size: usize,
}

/// An address, or the first that a name has.
fn address(text: &str) -> io::Result<SocketAddr> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    text.to_socket_addrs()?.next().ok_or_else(none)
}

pub(crate) fn run(args: &Args) -> io::Result<()> {
    let target = Target {
        to: args.to,
        kind: Kind::new(args.udp, args.connected),
        timeout: Duration::from_millis(args.timeout),
        size: args.size,
        from_port: args.from_port,
    };
    let mut session: Option<Session> = None;
    let mut stdout = io::stdout().lock();
    for number in 0..args.count {
        if number > 0 {
            std::thread::sleep(Duration::from_millis(args.interval));
        }
        let attempt = attempt(&mut session, target);
        if !args.keep {
            session = None;
        }
        serde_json::to_writer(&mut stdout, &attempt)?;
        writeln!(stdout)?;
    }
    Ok(())
}
