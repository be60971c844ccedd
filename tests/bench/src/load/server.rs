//! The server process: answers every request on one port, at every address that
//! its network namespace owns.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::thread;

use anyhow::{Context, Result};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::{Domain, Protocol, Socket, Type};

use super::wire::{Answer, MESSAGE, bind_to_core};

/// Connections that may wait for `accept`.
const BACKLOG: i32 = 4096;
/// Events taken from the kernel in one go.
const BATCH: usize = 256;

/// Serves `port` with `threads` threads, each on its own core while there are so many;
/// returns only on failure. Prints `ready`
/// once every thread listens.
pub fn run(port: u16, threads: u8) -> Result<()> {
    let listeners = (0..threads)
        .map(|_| listen(port))
        .collect::<io::Result<Vec<_>>>()
        .with_context(|| format!("listening on port {port}"))?;
    println!("ready");
    thread::scope(|scope| {
        let handles: Vec<_> = listeners
            .into_iter()
            .zip(0..)
            .map(|(listener, thread)| scope.spawn(move || serve(&listener, thread)))
            .collect();
        for handle in handles {
            handle
                .join()
                .map_err(|_| anyhow::anyhow!("a server thread panicked"))??;
        }
        Ok(())
    })
}

/// A listener of its own for each thread; the kernel spreads connections over them.
pub(super) fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// One thread's event loop.
fn serve(listener: &TcpListener, thread: u8) -> Result<()> {
    bind_to_core(thread.into()).context("binding a server thread to a core")?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("epoll_create1")?;
    let door = listener.as_raw_fd();
    epoll
        .add(listener, event(door))
        .context("watching the listener")?;
    let mut connections: HashMap<RawFd, Connection> = HashMap::new();
    let mut events = [EpollEvent::empty(); BATCH];
    loop {
        let count = match epoll.wait(&mut events, EpollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            count => count.context("epoll_wait")?,
        };
        for ready in events.iter().take(count) {
            let fd = ready.data() as RawFd;
            if fd == door {
                accept_all(listener, thread, &epoll, &mut connections)?;
            } else if connections
                .get_mut(&fd)
                .is_some_and(|c| c.answer_all().is_err())
            {
                connections.remove(&fd);
            }
        }
    }
}

fn event(fd: RawFd) -> EpollEvent {
    EpollEvent::new(EpollFlags::EPOLLIN, fd as u64)
}

fn accept_all(
    listener: &TcpListener,
    thread: u8,
    epoll: &Epoll,
    connections: &mut HashMap<RawFd, Connection>,
) -> Result<()> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                // A client that has gone again by now is no failure of the server.
                let Ok(mut connection) = Connection::new(stream, thread) else {
                    continue;
                };
                // The request is often there already: one epoll round trip less.
                if connection.answer_all().is_ok() {
                    let fd = connection.stream.as_raw_fd();
                    epoll
                        .add(&connection.stream, event(fd))
                        .context("watching a connection")?;
                    connections.insert(fd, connection);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error).context("accept"),
        }
    }
}

/// One connection; closes when dropped, which also takes it out of epoll.
struct Connection {
    stream: TcpStream,
    answer: [u8; MESSAGE],
    /// Bytes received of a request that is not complete.
    partial: usize,
}

impl Connection {
    fn new(stream: TcpStream, thread: u8) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let backend = match stream.local_addr()?.ip() {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => return Err(ErrorKind::Unsupported.into()),
        };
        Ok(Self {
            stream,
            answer: Answer { backend, thread }.message(),
            partial: 0,
        })
    }

    /// Answers what has arrived. An error means that the connection is over.
    fn answer_all(&mut self) -> io::Result<()> {
        let mut buffer = [0u8; MESSAGE];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.partial += count;
                while self.partial >= MESSAGE {
                    self.partial -= MESSAGE;
                    // One request at a time and 64 bytes: the buffer cannot be full.
                    self.stream.write_all(&self.answer)?;
                }
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}
