//! Takes sockets of pairs that went back to TCP out of the sockmap, and wakes their applications: see `accel_leaving` in
//! `bpf/include/maps/accel.h`.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::bpf::{LeavingCount, Record, SocketIterator, types};
use crate::netns;
use crate::tables::Table;

/// Between two looks at the table: how long an application may be held up.
const LOOK: Duration = Duration::from_millis(10);
/// Between two walks over the sockets, while those who are waited for do not read.
const LONGEST: Duration = Duration::from_millis(640);
/// Of the time, walks take at most one part in so many.
const SHARE: u32 = 20;

/// Value of `accel_leaving`: the socket's place in `accel_sockets`.
#[derive(Clone, Copy)]
pub struct LeavingSocket(types::accel_key);

impl Record for LeavingSocket {
    type Raw = types::accel_key;

    fn to_raw(&self) -> types::accel_key {
        self.0
    }

    fn from_raw(raw: types::accel_key) -> Option<Self> {
        Some(Self(raw))
    }
}

/// The task that does so.
pub struct Leaving {
    table: Box<dyn Table<u64, LeavingSocket>>,
    count: LeavingCount,
    leave: SocketIterator,
    /// The count at the last look; `None`: there was none.
    seen: Option<u32>,
    /// Who was left after the last walk.
    waited_for: HashSet<u64>,
    last: Instant,
    pause: Duration,
}

impl Leaving {
    /// Of the sockets in this table.
    #[must_use]
    pub fn new(
        table: Box<dyn Table<u64, LeavingSocket>>,
        count: LeavingCount,
        leave: SocketIterator,
    ) -> Self {
        Self {
            table,
            count,
            leave,
            seen: None,
            waited_for: HashSet::new(),
            last: Instant::now(),
            pause: LOOK,
        }
    }

    /// Goes on until `drain` is cancelled. Who is left then is in the table for the next agent.
    ///
    /// # Errors
    /// When a look panicked.
    pub async fn run(mut self, drain: CancellationToken) -> io::Result<()> {
        loop {
            tokio::select! {
                () = drain.cancelled() => return Ok(()),
                () = tokio::time::sleep(LOOK) => {}
            }
            // Almost always there is nothing: not worth another thread.
            if self.is_at_rest() {
                continue;
            }
            let look = tokio::task::spawn_blocking(move || {
                if let Err(e) = self.look() {
                    tracing::warn!(
                        "connections that went back to TCP stay in the sockmap for now: {e}"
                    );
                }
                self
            });
            self = look.await.map_err(io::Error::other)?;
        }
    }

    fn is_at_rest(&self) -> bool {
        let is_seen = |count| self.seen == Some(count);
        self.waited_for.is_empty() && self.count.read().is_ok_and(is_seen)
    }

    fn look(&mut self) -> io::Result<()> {
        let count = self.count.read()?;
        let waiting = self.table.entries().map_err(io::Error::other)?;
        let is_new = waiting
            .iter()
            .any(|(sock, _)| !self.waited_for.contains(sock));
        let pause = if is_new {
            self.pause.min(LOOK * 2)
        } else {
            self.pause
        };
        if waiting.is_empty() {
            self.waited_for.clear();
            self.seen = Some(count);
            return Ok(());
        }
        if self.last.elapsed() < pause {
            return Ok(());
        }
        let began = Instant::now();
        let wanted: HashSet<u32> = waiting.iter().map(|(_, socket)| socket.0.netns).collect();
        for namespace in netns::open(&wanted).values() {
            netns::within(namespace, || self.leave.run())?;
        }
        let left = self.table.entries().map_err(io::Error::other)?;
        let moves = is_new || left.len() < waiting.len();
        let pause = if moves {
            LOOK
        } else {
            (self.pause * 2).min(LONGEST)
        };
        self.last = Instant::now();
        self.seen = Some(count);
        self.pause = pause.max(began.elapsed() * SHARE);
        self.waited_for = left.into_iter().map(|(sock, _)| sock).collect();
        Ok(())
    }
}
