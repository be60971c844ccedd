//! Messages of any size between ends that poll: the client's part and the server's.
//!
//! A connection begins with a greeting, the size of its messages and whether they are answered; the server says the number of its
//! thread. A stream ends with the client's FIN, and with one more byte from the server when it has read everything.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::{Domain, Protocol, Socket, Type};

use super::client::Tally;
use super::job::Polled;
use super::server::listen;
use super::wire::{PATIENCE, bind_to_core};

/// Size, big endian, and whether messages are answered.
const GREETING: usize = 5;
/// What a reader asks for at once.
const CHUNK: usize = 256 << 10;
/// Connections tried before concluding that none lands on the wanted thread.
const TRIES: usize = 200;

/// A socket that never blocks, and what it waits for.
struct Polling {
    stream: TcpStream,
    epoll: Epoll,
}

impl Polling {
    fn connect(job: &Polled) -> Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(job.nodelay)?;
        match socket.connect(&job.target.into()) {
            Err(error) if error.raw_os_error() != Some(nix::libc::EINPROGRESS) => Err(error)?,
            _ => {}
        }
        let stream = TcpStream::from(socket);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLOUT, 0))?;
        let polling = Self { stream, epoll };
        polling.wait()?;
        if let Some(error) = polling.stream.take_error()? {
            bail!("connecting to {}: {error}", job.target);
        }
        polling.want(EpollFlags::EPOLLIN)?;
        Ok(polling)
    }

    fn want(&self, flags: EpollFlags) -> Result<()> {
        Ok(self
            .epoll
            .modify(&self.stream, &mut EpollEvent::new(flags, 0))?)
    }

    fn wait(&self) -> Result<()> {
        let patience = u16::try_from(PATIENCE.as_millis()).unwrap_or(u16::MAX);
        let came = self
            .epoll
            .wait(&mut [EpollEvent::empty()], EpollTimeout::from(patience))?;
        if came == 0 {
            bail!("nothing came for {PATIENCE:?}");
        }
        Ok(())
    }

    fn write_all(&mut self, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            match self.stream.write(data) {
                Ok(count) => data = data.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.want(EpollFlags::EPOLLOUT)?;
                    self.wait()?;
                    self.want(EpollFlags::EPOLLIN)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        loop {
            match self.stream.read(&mut byte) {
                Ok(0) => bail!("the server has closed"),
                Ok(_) => return Ok(byte[0]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait()?,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The connections of thread `index`, greeted.
pub(super) fn open(job: &Polled, index: usize) -> Result<Vec<TcpStream>> {
    let cores = usize::from(job.cores.max(1));
    let own = index % cores;
    bind_to_core(own).context("binding a load thread to a core")?;
    let wanted = if job.answered { own } else { (own + 1) % cores };
    (index..job.connections)
        .step_by(cores)
        .map(|_| land(job, wanted))
        .collect()
}

fn land(job: &Polled, thread: usize) -> Result<TcpStream> {
    let mut greeting = [0; GREETING];
    let (size, answered) = greeting.split_at_mut(GREETING - 1);
    size.copy_from_slice(&job.size.to_be_bytes());
    answered.copy_from_slice(&[job.answered.into()]);
    for _ in 0..TRIES {
        let mut polling = Polling::connect(job)?;
        polling.write_all(&greeting)?;
        if usize::from(polling.read_byte()?) == thread {
            return Ok(polling.stream);
        }
    }
    bail!("{TRIES} connections and none landed on thread {thread}")
}

/// Sends messages over these connections until `until`.
pub(super) fn exchange(job: &Polled, streams: Vec<TcpStream>, until: Instant) -> Result<Tally> {
    let mut tally = Tally::new()?;
    let message = vec![7; job.size as usize];
    if job.answered {
        requests(&message, streams, until, &mut tally)?;
    } else {
        let [stream] =
            <[TcpStream; 1]>::try_from(streams).map_err(|_| anyhow!("one stream for each core"))?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        let mut polling = Polling { stream, epoll };
        let mut count = 0;
        while Instant::now() < until {
            // The clock costs as much as a small message.
            for _ in 0..16 {
                polling.write_all(&message)?;
            }
            count += 16;
        }
        polling.stream.shutdown(std::net::Shutdown::Write)?;
        polling.read_byte()?;
        tally.samples.saturating_record_n(1, count);
    }
    Ok(tally)
}

/// A connection with one message under way.
struct Request {
    stream: TcpStream,
    began: Instant,
    sent: usize,
    received: usize,
}

fn requests(
    message: &[u8],
    streams: Vec<TcpStream>,
    until: Instant,
    tally: &mut Tally,
) -> Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let mut all = Vec::new();
    for (place, stream) in streams.into_iter().enumerate() {
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        epoll.add(&stream, EpollEvent::new(flags, place as u64))?;
        all.push(Request {
            stream,
            began: Instant::now(),
            sent: 0,
            received: 0,
        });
    }
    let mut buffer = vec![0; CHUNK];
    let mut events = [EpollEvent::empty(); 64];
    while Instant::now() < until {
        let count = epoll.wait(&mut events, EpollTimeout::from(100_u8))?;
        for event in events.iter().take(count) {
            let Some(request) = all.get_mut(event.data() as usize) else {
                continue;
            };
            request.go_on(message, &mut buffer, tally)?;
        }
    }
    Ok(())
}

impl Request {
    /// As far as it goes without waiting.
    fn go_on(&mut self, message: &[u8], buffer: &mut [u8], tally: &mut Tally) -> Result<()> {
        loop {
            let step = match message.get(self.sent..).unwrap_or_default() {
                [] => self.stream.read(buffer).map(|count| (0, count)),
                rest => self.stream.write(rest).map(|count| (count, 0)),
            };
            match step {
                Ok((0, 0)) => bail!("the server has closed"),
                Ok((sent, received)) => {
                    self.sent += sent;
                    self.received += received;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if self.received >= message.len() {
                let now = Instant::now();
                tally
                    .samples
                    .saturating_record((now - self.began).as_nanos() as u64);
                (self.began, self.sent, self.received) = (now, 0, 0);
            }
        }
    }
}

/// Serves `port` with `threads` threads, each on its own core while there are so many; returns only on failure. Prints `ready` once every
/// thread listens.
pub fn serve(port: u16, threads: u8) -> Result<()> {
    let listeners = (0..threads)
        .map(|_| listen(port))
        .collect::<io::Result<Vec<_>>>()
        .with_context(|| format!("listening on port {port}"))?;
    println!("ready");
    thread::scope(|scope| {
        let serving = listeners.iter().zip(0..);
        let handles: Vec<_> = serving
            .map(|(listener, index)| scope.spawn(move || answer_all(listener, index)))
            .collect();
        for handle in handles {
            handle
                .join()
                .map_err(|_| anyhow!("a server thread panicked"))??;
        }
        Ok(())
    })
}

struct Served {
    stream: TcpStream,
    greeting: Vec<u8>,
    answer: Vec<u8>,
    /// Bytes of a message that is not complete, and of answers that are not out.
    partial: usize,
    owed: usize,
}

fn answer_all(listener: &TcpListener, thread: u8) -> Result<()> {
    bind_to_core(thread.into()).context("binding a server thread to a core")?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let door = listener.as_raw_fd();
    epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, door as u64))?;
    let mut served: HashMap<RawFd, Served> = HashMap::new();
    let mut buffer = vec![0; CHUNK];
    let mut events = [EpollEvent::empty(); 64];
    loop {
        let count = match epoll.wait(&mut events, EpollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            count => count.context("epoll_wait")?,
        };
        for event in events.iter().take(count) {
            let fd = event.data() as RawFd;
            if fd == door {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let fd = stream.as_raw_fd();
                    let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
                    epoll.add(&stream, EpollEvent::new(flags, fd as u64))?;
                    let (greeting, answer) = (Vec::new(), Vec::new());
                    served.insert(
                        fd,
                        Served {
                            stream,
                            greeting,
                            answer,
                            partial: 0,
                            owed: 0,
                        },
                    );
                }
            } else if served
                .get_mut(&fd)
                .is_some_and(|s| s.go_on(thread, &mut buffer).is_err())
            {
                served.remove(&fd);
            }
        }
    }
}

impl Served {
    /// As far as it goes without waiting. An error means that the connection is over.
    fn go_on(&mut self, thread: u8, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            if self.owed > 0 {
                let start = self.answer.len() - (self.owed - 1) % self.answer.len() - 1;
                match self
                    .stream
                    .write(self.answer.get(start..).unwrap_or_default())
                {
                    Ok(count) => self.owed -= count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(error),
                }
                continue;
            }
            let count = match self.stream.read(buffer) {
                Ok(0) => {
                    self.stream.write_all(&[0])?;
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                count => count?,
            };
            self.take(buffer.get(..count).unwrap_or_default(), thread)?;
        }
    }

    fn take(&mut self, data: &[u8], thread: u8) -> io::Result<()> {
        let missing = GREETING - self.greeting.len();
        let (head, rest) = data.split_at(missing.min(data.len()));
        self.greeting.extend_from_slice(head);
        if !head.is_empty() && head.len() == missing {
            let [a, b, c, d, answered] = self.greeting[..] else {
                return Ok(());
            };
            let size = u32::from_be_bytes([a, b, c, d]).min(1 << 26) as usize;
            self.answer = vec![7; if answered == 1 { size } else { 0 }];
            self.stream.write_all(&[thread])?;
        }
        if !self.answer.is_empty() {
            self.partial += rest.len();
            let whole = self.partial / self.answer.len();
            self.partial %= self.answer.len();
            self.owed += whole * self.answer.len();
        }
        Ok(())
    }
}
