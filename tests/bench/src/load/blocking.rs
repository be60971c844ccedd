//! Messages and answers of any size between ends that block in `recv()`, one at a time for each connection, as netperf's TCP_RR does
//! it: the client's part and the server's.
//!
//! A connection begins with a greeting, the size of its messages and the core of its client; the server says one byte when its thread
//! for the connection keeps to that core.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};

use super::client::Tally;
use super::job::Blocking;
use super::wire::{PATIENCE, bind_to_core};

/// Size, big endian, and core.
const GREETING: usize = 5;
/// Largest message taken.
const LARGEST: u32 = 1 << 26;

/// The connection of thread `index`, greeted.
pub(super) fn open(job: &Blocking, index: usize) -> Result<TcpStream> {
    let core = (index % usize::from(job.cores.max(1))) as u8;
    bind_to_core(core.into()).context("binding a load thread to a core")?;
    let connect = TcpStream::connect_timeout(&job.target, PATIENCE);
    let mut stream = connect.with_context(|| format!("connecting to {}", job.target))?;
    stream.set_nodelay(true)?;
    let [a, b, c, d] = job.size.to_be_bytes();
    stream.write_all(&[a, b, c, d, core])?;
    stream.read_exact(&mut [0])?;
    Ok(stream)
}

/// Sends one message after the other until `until`.
pub(super) fn exchange(job: &Blocking, mut stream: TcpStream, until: Instant) -> Result<Tally> {
    let mut tally = Tally::new()?;
    let mut message = vec![7; job.size as usize];
    let mut began = Instant::now();
    while began < until {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        let now = Instant::now();
        tally
            .samples
            .saturating_record((now - began).as_nanos() as u64);
        began = now;
    }
    Ok(tally)
}

/// Serves `port` with a thread for each connection; returns only on failure. Prints `ready` once it listens.
pub fn serve(port: u16) -> Result<()> {
    let listening = TcpListener::bind(("0.0.0.0", port));
    let listener = listening.with_context(|| format!("listening on port {port}"))?;
    println!("ready");
    // A client that has gone again by now is no failure of the server.
    for stream in listener.incoming().flatten() {
        thread::spawn(move || answer_all(stream));
    }
    Ok(())
}

/// Until the client closes, which is an error like others.
fn answer_all(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut greeting = [0; GREETING];
    stream.read_exact(&mut greeting)?;
    let [a, b, c, d, core] = greeting;
    bind_to_core(core.into())?;
    stream.write_all(&[core])?;
    let size = u32::from_be_bytes([a, b, c, d]).min(LARGEST);
    let mut message = vec![0; size as usize];
    loop {
        stream.read_exact(&mut message)?;
        stream.write_all(&message)?;
    }
}
