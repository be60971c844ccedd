//! One connection or socket of a client, and requests over it.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use weft_lab::probe::{Attempt, Reply};

use crate::errno;

/// Larger than any reply.
const MAX_DATAGRAM: usize = 65_536;

/// How to reach the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) to: SocketAddr,
    pub(crate) kind: Kind,
    pub(crate) timeout: Duration,
    /// Bytes of a request; and of its answer, which repeats it, a few more.
    pub(crate) size: usize,
    /// Of a UDP client; 0: any.
    pub(crate) from_port: u16,
}

/// TCP, or UDP with or without `connect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    UdpConnected,
    UdpUnconnected,
}

impl Kind {
    pub(crate) fn new(udp: bool, connected: bool) -> Self {
        match (udp, connected) {
            (false, _) => Self::Tcp,
            (true, true) => Self::UdpConnected,
            (true, false) => Self::UdpUnconnected,
        }
    }
}

/// An open connection or socket.
pub(crate) struct Session {
    socket: Socket,
    target: Target,
    sent: u64,
}

enum Socket {
    Tcp(BufReader<TcpStream>),
    Udp(UdpSocket),
}

impl Session {
    /// Connects, or for unconnected UDP makes the socket.
    pub(crate) fn open(target: Target) -> io::Result<Self> {
        let socket = match target.kind {
            Kind::Tcp => Socket::Tcp(BufReader::new(open_tcp(target)?)),
            Kind::UdpConnected | Kind::UdpUnconnected => Socket::Udp(open_udp(target)?),
        };
        Ok(Self {
            socket,
            target,
            sent: 0,
        })
    }

    /// Makes one request and waits for its answer.
    pub(crate) fn ask(&mut self) -> io::Result<(Reply, Option<SocketAddr>)> {
        self.sent += 1;
        let id = format!("{:0>1$}", self.sent, self.target.size);
        match &mut self.socket {
            Socket::Tcp(stream) => {
                // Waiting for the end, it was given another.
                let timeout = Some(self.target.timeout);
                stream.get_ref().set_read_timeout(timeout)?;
                stream.get_mut().write_all(format!("{id}\n").as_bytes())?;
                Ok((read_reply(stream)?, None))
            }
            Socket::Udp(socket) => {
                match self.target.kind {
                    Kind::UdpConnected => socket.send(id.as_bytes())?,
                    _ => socket.send_to(id.as_bytes(), self.target.to)?,
                };
                let (reply, from) = receive_reply(socket, &id, self.target.timeout)?;
                Ok((reply, Some(from)))
            }
        }
    }

    /// Waits until the peer or the kernel breaks the connection; `None` when `timeout` is over before.
    pub(crate) fn wait_broken(&mut self, timeout: Duration) -> Option<io::Error> {
        let deadline = Instant::now() + timeout;
        loop {
            // A timeout of zero would mean none.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let read = match &mut self.socket {
                Socket::Tcp(stream) => {
                    let _ = stream.get_ref().set_read_timeout(Some(left));
                    stream.fill_buf().map(<[u8]>::len)
                }
                Socket::Udp(socket) => {
                    let _ = socket.set_read_timeout(Some(left));
                    socket.recv(&mut [0; 1]).map(|_| 1)
                }
            };
            match read {
                Ok(0) => return Some(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {
                    if let Socket::Tcp(stream) = &mut self.socket {
                        let length = stream.buffer().len();
                        stream.consume(length);
                    }
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Some(error),
            }
        }
    }

    /// Closes by RST, so that no port waits in TIME_WAIT: a load of new connections would run out of ports.
    pub(crate) fn abort(self) {
        if let Socket::Tcp(stream) = &self.socket {
            let _ = set_socket_linger(stream.get_ref(), Some(Duration::ZERO));
        }
    }

    fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        match &self.socket {
            Socket::Tcp(stream) => {
                let stream = stream.get_ref();
                (stream.local_addr().ok(), stream.peer_addr().ok())
            }
            Socket::Udp(socket) => (socket.local_addr().ok(), socket.peer_addr().ok()),
        }
    }
}

/// One request over `session`, which is opened first if there is none; a session that failed is closed.
pub(crate) fn attempt(session: &mut Option<Session>, target: Target) -> Attempt {
    let start = Instant::now();
    let mut attempt = Attempt::default();
    let result = match session.take() {
        Some(open) => Ok(open),
        None => Session::open(target),
    };
    let answer = result.and_then(|mut open| {
        (attempt.local, attempt.peer) = open.addresses();
        let answer = open.ask()?;
        // An unbound socket gets its address only when it sends.
        attempt.local = open.addresses().0;
        *session = Some(open);
        Ok(answer)
    });
    attempt.elapsed_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    match answer {
        Ok((reply, from)) => {
            attempt.server = Some(reply.server);
            attempt.seen_as = Some(reply.peer);
            attempt.reached = Some(reply.local);
            attempt.from = from;
        }
        Err(error) => {
            attempt.errno = Some(errno::name(&error));
            attempt.error = Some(error.to_string());
        }
    }
    attempt
}

fn open_tcp(target: Target) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&target.to, target.timeout)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(target.timeout))?;
    stream.set_write_timeout(Some(target.timeout))?;
    Ok(stream)
}

fn open_udp(target: Target) -> io::Result<UdpSocket> {
    let any: IpAddr = match target.to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, target.from_port))?;
    if target.kind == Kind::UdpConnected {
        socket.connect(target.to)?;
    }
    Ok(socket)
}

fn read_reply(stream: &mut BufReader<TcpStream>) -> io::Result<Reply> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}

/// Waits for the answer to `id`; answers to earlier requests that came too late are passed over.
fn receive_reply(
    socket: &UdpSocket,
    id: &str,
    timeout: Duration,
) -> io::Result<(Reply, SocketAddr)> {
    let deadline = Instant::now() + timeout;
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let (length, from) = socket.recv_from(&mut buffer)?;
        let reply: Reply = serde_json::from_slice(buffer.get(..length).unwrap_or_default())?;
        if reply.id == id {
            return Ok((reply, from));
        }
    }
}
