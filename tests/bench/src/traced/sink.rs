//! A collector that takes everything and looks at nothing, so that it is not what is measured.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::net::{RecvFlags, recv};
use weft_lab::Node;

const ADDRESS: &str = "127.0.0.1:4318";
/// What agents are given.
pub(super) const URL: &str = "http://127.0.0.1:4318/v1/traces";
/// Taken off a connection at a time: few system calls, as what is measured is not this.
const BYTES: usize = 1 << 20;
const TAKEN: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";

/// Takes what comes to a node, until the process ends.
pub(super) fn start(node: &Node) -> Result<()> {
    let listener = node.netns().run(|| TcpListener::bind(ADDRESS))??;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut reader = BufReader::new(&stream);
                let mut room = vec![0; BYTES];
                while request(&mut reader, &stream, &mut room).is_ok() {}
            });
        }
    });
    Ok(())
}

fn request(
    reader: &mut BufReader<&TcpStream>,
    mut stream: &TcpStream,
    room: &mut [u8],
) -> Result<()> {
    let mut length = None;
    loop {
        let mut line = String::new();
        ensure!(reader.read_line(&mut line)? > 0, "closed");
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = Some(value.trim().parse::<usize>()?);
        }
    }
    let mut left = length.context("no length")?;
    let read = reader.buffer().len().min(left);
    reader.consume(read);
    left -= read;
    while left > 0 {
        let most = left.min(room.len());
        // Thrown away by the kernel: tcp(7), MSG_TRUNC.
        let (_, gone) = recv(stream, &mut room[..most], RecvFlags::TRUNC)?;
        ensure!(gone > 0, "closed");
        left = left.saturating_sub(gone);
    }
    stream.write_all(TAKEN)?;
    Ok(())
}
