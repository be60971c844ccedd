//! A management server that the tests hold in their hand: it speaks delta ADS as strictly as foreign servers do, says exactly
//! what a test tells it to, and notes when each response was acknowledged.
//!
//! As with other servers, Listener and Cluster have wildcards, endpoints must be asked for by name, and Weft's own types are
//! unknown: nothing is ever sent for them unless a test set some.

mod stream;

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::runtime::Runtime;
use tokio::sync::broadcast;
use weft_lab::netns::Netns;
use weft_lab::probe::monotonic_ns;
use weft_proto::convert;
use weft_proto::envoy::envoy::service::discovery::v3::DeltaDiscoveryResponse;
use weft_proto::envoy::google::protobuf::Any;
use weft_proto::model::Resource;

use crate::Result;
use crate::wait::eventually;

/// How an agent answered.
#[derive(Clone, Debug)]
pub struct Ack {
    /// CLOCK_MONOTONIC when it came, nanoseconds.
    pub at_ns: u64,
    /// The NACK's message; `None` for an ACK.
    pub error: Option<String>,
}

/// A resource as the server holds it.
#[derive(Clone, Debug)]
struct Held {
    version: u64,
    /// `None` once removed.
    body: Option<Any>,
    /// What the agent said to the newest version that it answered.
    answer: Option<(u64, Ack)>,
}

/// Type URL and name.
type Key = (String, String);

#[derive(Debug, Default)]
struct State {
    resources: BTreeMap<Key, Held>,
    /// What was sent under each nonce that was not answered yet.
    sent: HashMap<String, Vec<(Key, u64)>>,
    streams: u64,
    /// Whether new streams are answered.
    silent: bool,
}

/// A change that was made, to wait for its answer.
#[derive(Clone, Debug)]
pub struct Change {
    resources: Vec<(Key, u64)>,
}

/// What all streams share.
#[derive(Clone)]
struct Shared {
    state: Arc<Mutex<State>>,
    nonces: Arc<AtomicU64>,
    push: broadcast::Sender<Push>,
}

/// What a test tells the open streams to do.
#[derive(Clone, Debug)]
enum Push {
    /// These resources changed or went away.
    Changed {
        type_url: String,
        names: Vec<String>,
    },
    /// Send this as it is.
    Raw(Box<DeltaDiscoveryResponse>),
    /// End the stream with an error.
    Break,
}

/// A running server; it ends when dropped.
pub struct AdsServer {
    shared: Shared,
    runtime: Option<Runtime>,
    address: SocketAddr,
}

impl AdsServer {
    /// Listens on `address` in the network namespace `netns`.
    ///
    /// # Errors
    /// When the address is taken.
    pub fn start(netns: &Netns, address: SocketAddr) -> Result<Self> {
        let listener = netns.run(|| TcpListener::bind(address))??;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let shared = Shared {
            state: Arc::default(),
            nonces: Arc::default(),
            push: broadcast::channel(16_384).0,
        };
        let address = listener.local_addr()?;
        stream::serve(&runtime, listener, shared.clone())?;
        Ok(Self {
            shared,
            runtime: Some(runtime),
            address,
        })
    }

    /// `ADDR:PORT` for `--control`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Sets resources of one type and sends them in one response.
    pub fn set(&self, resources: &[Resource]) -> Change {
        let type_url = resources
            .first()
            .map_or("", |r| r.resource_type().type_url());
        let bodies = resources
            .iter()
            .map(|r| (r.name(), Some(convert::encode(r))));
        self.change(type_url, bodies.collect())
    }

    /// Sets (or, with `None`, removes) resources of one type by name and sends them in one response. A client that is not
    /// connected, or has not asked for them yet, gets them when it does.
    pub fn change(&self, type_url: &str, bodies: Vec<(String, Option<Any>)>) -> Change {
        let names = bodies.iter().map(|(name, _)| name.clone()).collect();
        let mut change = Change {
            resources: Vec::new(),
        };
        let mut state = self.shared.lock();
        for (name, body) in bodies {
            let key = (type_url.to_owned(), name);
            let held = state.resources.entry(key.clone()).or_insert(Held {
                version: 0,
                body: None,
                answer: None,
            });
            held.version += 1;
            held.body = body;
            change.resources.push((key, held.version));
        }
        drop(state);
        let type_url = type_url.to_owned();
        let _ = self.shared.push.send(Push::Changed { type_url, names });
        change
    }

    /// Sends a response as it is.
    pub fn send_raw(&self, response: DeltaDiscoveryResponse) {
        let _ = self.shared.push.send(Push::Raw(Box::new(response)));
    }

    /// Ends all open streams with an error.
    pub fn break_streams(&self) {
        let _ = self.shared.push.send(Push::Break);
    }

    /// From now on new streams are accepted and never answered (or answered again).
    pub fn set_silent(&self, silent: bool) {
        self.shared.lock().silent = silent;
    }

    /// Streams that were opened so far.
    #[must_use]
    pub fn streams(&self) -> u64 {
        self.shared.lock().streams
    }

    /// How the change was answered, if all of it was: with an error if any part was refused, else by the last ACK.
    #[must_use]
    pub fn answer(&self, change: &Change) -> Option<Ack> {
        let state = self.shared.lock();
        let mut last: Option<Ack> = None;
        for (key, version) in &change.resources {
            let (answered, ack) = state.resources.get(key)?.answer.as_ref()?;
            if answered < version {
                return None;
            }
            if ack.error.is_some() {
                return Some(ack.clone());
            }
            last = last
                .filter(|l| l.at_ns > ack.at_ns)
                .or_else(|| Some(ack.clone()));
        }
        last
    }

    /// Waits for the answer to a change.
    ///
    /// # Errors
    /// When none comes.
    pub fn wait_answer(&self, change: &Change, within: Duration) -> Result<Ack> {
        eventually(within, || {
            self.answer(change)
                .with_context(|| format!("no answer to {change:?}"))
        })
    }

    /// Waits for the ACK of a change.
    ///
    /// # Errors
    /// When none or a NACK comes.
    pub fn wait_ack(&self, change: &Change, within: Duration) -> Result<Ack> {
        let ack = self.wait_answer(change, within)?;
        match &ack.error {
            None => Ok(ack),
            Some(error) => bail!("{change:?} was refused: {error}"),
        }
    }

    /// Waits until a stream more than `before` was opened.
    ///
    /// # Errors
    /// When none is.
    pub fn wait_reconnect(&self, before: u64, within: Duration) -> Result {
        eventually(within, || {
            ensure!(self.streams() > before, "no new stream");
            Ok(())
        })
    }
}

impl Drop for AdsServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_nonce(&self) -> String {
        format!("n{}", self.nonces.fetch_add(1, Ordering::Relaxed))
    }

    fn note_sent(&self, nonce: &str, resources: Vec<(Key, u64)>) {
        self.lock().sent.insert(nonce.to_owned(), resources);
    }

    fn note_answer(&self, nonce: &str, error: Option<String>) {
        let ack = Ack {
            at_ns: monotonic_ns(),
            error,
        };
        let mut state = self.lock();
        for (key, version) in state.sent.remove(nonce).unwrap_or_default() {
            if let Some(held) = state.resources.get_mut(&key) {
                held.answer = Some((version, ack.clone()));
            }
        }
    }
}
