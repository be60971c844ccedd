//! The server.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::{set_ipv6_v6only, set_socket_linger, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use weft_lab::client::READY;
use weft_lab::probe::Reply;

/// As many connections may wait to be accepted.
const BACKLOG: i32 = 4096;
/// Enough for a connection's thread; thousands of them may be open.
const STACK_BYTES: usize = 128 * 1024;
/// A longer request is no request of ours.
const MAX_REQUEST: usize = 65_536;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name it calls itself in its answers
    #[arg(long)]
    name: String,
    /// TCP ports to listen on
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    tcp: Vec<u16>,
    /// UDP ports to listen on
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    udp: Vec<u16>,
    /// Address to bind (repeatable) [default: all, of both families]
    #[arg(long, value_name = "IP")]
    addr: Vec<IpAddr>,
    /// Wait so long before each answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    delay: u64,
    /// Wait so long before listening, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    slow_start: u64,
    /// Accept and read, but never answer
    #[arg(long)]
    silent: bool,
    /// Accept TCP connections and reset them at once
    #[arg(long)]
    reset: bool,
}

struct Server {
    name: String,
    delay: Duration,
    silent: bool,
    reset: bool,
    answered: AtomicU64,
}

pub(crate) fn run(args: &Args) -> io::Result<()> {
    thread::sleep(Duration::from_millis(args.slow_start));
    let server = Arc::new(Server {
        name: args.name.clone(),
        delay: Duration::from_millis(args.delay),
        silent: args.silent,
        reset: args.reset,
        answered: AtomicU64::new(0),
    });
    let mut threads = Vec::new();
    for address in addresses(args) {
        for port in &args.tcp {
            let socket = open(SocketAddr::new(address, *port), SocketType::STREAM)?;
            listen(&socket, BACKLOG)?;
            let (listener, server) = (TcpListener::from(socket), Arc::clone(&server));
            threads.push(thread::spawn(move || server.accept(&listener)));
        }
        for port in &args.udp {
            let socket = open(SocketAddr::new(address, *port), SocketType::DGRAM)?;
            let (socket, server) = (Arc::new(UdpSocket::from(socket)), Arc::clone(&server));
            threads.push(thread::spawn(move || server.receive(&socket)));
        }
    }
    println!("{READY}");
    for thread in threads {
        thread
            .join()
            .map_err(|_| io::Error::other("a listening thread has died"))??;
    }
    Ok(())
}

fn addresses(args: &Args) -> Vec<IpAddr> {
    if args.addr.is_empty() {
        return vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    }
    args.addr.clone()
}

/// A bound socket. IPv6 ones take IPv6 only: an IPv4 client must not be seen under a mapped address.
fn open(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)
        .map_err(|errno| io::Error::other(format!("cannot bind {address}: {errno}")))?;
    Ok(socket)
}

impl Server {
    fn accept(self: Arc<Self>, listener: &TcpListener) -> io::Result<()> {
        loop {
            let (stream, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                // The client gave up before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            let server = Arc::clone(&self);
            // What goes wrong on one connection is the client's to report.
            thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn(move || server.converse(stream, peer))?;
        }
    }

    fn converse(&self, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        if self.reset {
            // Closing then sends no FIN.
            return Ok(set_socket_linger(&stream, Some(Duration::ZERO))?);
        }
        stream.set_nodelay(true)?;
        let local = stream.local_addr()?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 {
            if !self.silent {
                thread::sleep(self.delay);
                let answer = self.answer(line.trim_end(), local, peer)?;
                reader.get_mut().write_all(&answer)?;
            }
            line.clear();
        }
        Ok(())
    }

    fn receive(self: Arc<Self>, socket: &Arc<UdpSocket>) -> io::Result<()> {
        let local = socket.local_addr()?;
        let mut buffer = vec![0; MAX_REQUEST];
        loop {
            let (length, peer) = match socket.recv_from(&mut buffer) {
                Ok(received) => received,
                // The ICMP error for an earlier answer, whose client is gone.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            };
            if self.silent {
                continue;
            }
            let request = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default());
            let answer = self.answer(&request, local, peer)?;
            if self.delay.is_zero() {
                // A client that is gone by now is no fault of the server.
                let _ = socket.send_to(&answer, peer);
            } else {
                let (socket, delay) = (Arc::clone(socket), self.delay);
                thread::spawn(move || {
                    thread::sleep(delay);
                    socket.send_to(&answer, peer)
                });
            }
        }
    }

    fn answer(&self, id: &str, local: SocketAddr, peer: SocketAddr) -> io::Result<Vec<u8>> {
        let reply = Reply {
            id: id.to_owned(),
            server: self.name.clone(),
            local,
            peer,
            count: self.answered.fetch_add(1, Ordering::Relaxed) + 1,
        };
        let mut line = serde_json::to_vec(&reply)?;
        line.push(b'\n');
        Ok(line)
    }
}
