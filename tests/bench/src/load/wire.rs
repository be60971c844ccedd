//! What goes over a connection: a request of 64 bytes, and an answer of 64 bytes
//! that begins with the address the server was reached at and the number of its thread.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Bytes of a request, and of an answer.
pub(super) const MESSAGE: usize = 64;

/// How long connect, send and receive may usually each take before they count as
/// failed: long enough for the second and third try of a lost SYN.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// Nanoseconds of `CLOCK_MONOTONIC`: comparable between processes.
pub fn now_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000_000
            + u64::try_from(time.tv_nsec()).unwrap_or(0)
    })
}

/// Connects, from `source` if given. `patience` is for connect, send and receive
/// each. The connection closes by RST when dropped.
pub(super) fn connect(
    to: SocketAddr,
    source: Option<Ipv4Addr>,
    patience: Duration,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_tcp_nodelay(true)?;
    socket.set_write_timeout(Some(patience))?;
    socket.set_read_timeout(Some(patience))?;
    if let Some(source) = source {
        // The port is chosen at connect, when the other end is known: the same
        // port then serves any number of destinations.
        setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        socket.bind(&SocketAddrV4::new(source, 0).into())?;
    }
    socket.connect(&SockAddr::from(to))?;
    Ok(socket.into())
}

/// Who has answered.
pub(super) struct Answer {
    /// The address the server was reached at.
    pub(super) backend: Ipv4Addr,
    /// Number of the server's thread, which is that of its core, from 0.
    pub(super) thread: u8,
}

impl Answer {
    /// As it is sent.
    pub(super) fn message(&self) -> [u8; MESSAGE] {
        let mut message = [0u8; MESSAGE];
        let head = self.backend.octets().into_iter().chain([self.thread]);
        for (place, byte) in message.iter_mut().zip(head) {
            *place = byte;
        }
        message
    }
}

/// One request and its answer.
pub(super) fn exchange(stream: &mut TcpStream) -> io::Result<Answer> {
    let mut buffer = [0u8; MESSAGE];
    stream.write_all(&buffer)?;
    stream.read_exact(&mut buffer)?;
    let [a, b, c, d, thread, ..] = buffer;
    Ok(Answer {
        backend: Ipv4Addr::new(a, b, c, d),
        thread,
    })
}

/// Binds the calling thread to the `index`th core that this process may use, as long
/// as there are so many.
pub(super) fn bind_to_core(index: usize) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let cores = (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .nth(index);
    let Some(core) = cores else { return Ok(()) };
    let mut only = CpuSet::new();
    only.set(core);
    Ok(sched_setaffinity(None, &only)?)
}
