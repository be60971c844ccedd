//! The thread that owns the engine: map writes block, so they stay off the async runtime.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Applied, Closer, Engine, Update};
use crate::interfaces::LocalInterfaces;
use crate::proxy::Steering;

/// Updates waiting for the engine. Few: a decoded update can be large, and a full queue holds the control plane back.
const QUEUE: usize = 4;
/// Connections are closed at the latest after this many updates, sooner when none is waiting.
const UPDATES_PER_CLOSE: usize = 64;
/// How often the engine is told that time passes.
const TICK: Duration = Duration::from_millis(250);

type Query = Box<dyn FnOnce(&Engine) + Send>;

enum Command {
    Apply(Update, oneshot::Sender<Applied>),
    Synced(oneshot::Sender<()>),
    PoliciesKnown(oneshot::Sender<()>),
    Interfaces(LocalInterfaces),
    Query(Query),
}

/// The engine's thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the engine has stopped")]
pub struct EngineStopped;

/// Where to send work for the engine.
#[derive(Clone)]
pub struct EngineHandle {
    commands: mpsc::Sender<Command>,
    epochs: watch::Receiver<u32>,
    steering: watch::Receiver<Steering>,
    ages: watch::Receiver<Option<NonZeroU32>>,
}

impl EngineHandle {
    /// Applies an update; resolves once the tables are written.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub async fn apply(&self, update: Update) -> Result<Applied, EngineStopped> {
        let (reply, applied) = oneshot::channel();
        self.send(Command::Apply(update, reply)).await?;
        applied.await.map_err(|_| EngineStopped)
    }

    /// Everything has been received once: see [`Engine::set_synced`].
    ///
    /// # Errors
    /// When the engine has stopped.
    pub async fn synced(&self) -> Result<(), EngineStopped> {
        let (reply, done) = oneshot::channel();
        self.send(Command::Synced(reply)).await?;
        done.await.map_err(|_| EngineStopped)
    }

    /// All policies and workloads have been received once: see [`Engine::set_policies_known`].
    ///
    /// # Errors
    /// When the engine has stopped.
    pub async fn policies_known(&self) -> Result<(), EngineStopped> {
        let (reply, done) = oneshot::channel();
        self.send(Command::PoliciesKnown(reply)).await?;
        done.await.map_err(|_| EngineStopped)
    }

    /// Tells the engine what is known about local interfaces.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub async fn interfaces(&self, interfaces: LocalInterfaces) -> Result<(), EngineStopped> {
        self.send(Command::Interfaces(interfaces)).await
    }

    /// The policy epoch: whenever it grows, living connections have to be judged again.
    #[must_use]
    pub fn epochs(&self) -> watch::Receiver<u32> {
        self.epochs.clone()
    }

    /// What comes from other nodes for the node's Envoy.
    #[must_use]
    pub fn steering(&self) -> watch::Receiver<Steering> {
        self.steering.clone()
    }

    /// No service ends a connection for its age sooner than after so many seconds; `None`: none ends any.
    #[must_use]
    pub fn shortest_ages(&self) -> watch::Receiver<Option<NonZeroU32>> {
        self.ages.clone()
    }

    /// Looks at the engine between two updates. Keep it short: updates wait meanwhile.
    ///
    /// # Errors
    /// When the engine has stopped.
    pub async fn query<R: Send + 'static>(
        &self,
        look: impl FnOnce(&Engine) -> R + Send + 'static,
    ) -> Result<R, EngineStopped> {
        let (reply, answer) = oneshot::channel();
        let query: Query = Box::new(move |engine| {
            // Whoever asked may have gone.
            let _ = reply.send(look(engine));
        });
        self.send(Command::Query(query)).await?;
        answer.await.map_err(|_| EngineStopped)
    }

    async fn send(&self, command: Command) -> Result<(), EngineStopped> {
        let sent = self.commands.send(command).await;
        sent.map_err(|_| EngineStopped)
    }
}

/// Starts the engine's thread; it ends when `drain` is cancelled or the last handle is dropped. Call within a tokio runtime.
#[must_use]
pub fn start(
    engine: Engine,
    closer: Box<dyn Closer>,
    drain: CancellationToken,
) -> (EngineHandle, JoinHandle<()>) {
    let (commands, queue) = mpsc::channel(QUEUE);
    let runtime = Handle::current();
    let (epoch, epochs) = watch::channel(engine.policies().epoch());
    let (steered, steering) = watch::channel(engine.policies().steering());
    let (aged, ages) = watch::channel(engine.shortest_age());
    let worker = Worker {
        engine,
        closer,
        epoch,
        steered,
        aged,
        since_close: 0,
    };
    let thread = tokio::task::spawn_blocking(move || worker.run(queue, &runtime, &drain));
    let handle = EngineHandle {
        commands,
        epochs,
        steering,
        ages,
    };
    (handle, thread)
}

struct Worker {
    engine: Engine,
    closer: Box<dyn Closer>,
    epoch: watch::Sender<u32>,
    steered: watch::Sender<Steering>,
    aged: watch::Sender<Option<NonZeroU32>>,
    since_close: usize,
}

impl Worker {
    fn run(
        mut self,
        mut queue: mpsc::Receiver<Command>,
        runtime: &Handle,
        drain: &CancellationToken,
    ) {
        let mut last_tick = Instant::now();
        loop {
            let next = runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = drain.cancelled() => Next::Stop,
                    command = queue.recv() => command.map_or(Next::Stop, Next::Do),
                    () = tokio::time::sleep(TICK) => Next::Idle,
                }
            });
            match next {
                Next::Do(command) => self.execute(command),
                Next::Idle => {}
                Next::Stop => return,
            }
            let now = Instant::now();
            if now.saturating_duration_since(last_tick) >= TICK {
                last_tick = now;
                self.engine.tick(now);
                self.engine.generation += 1;
            }
            self.tell_news();
            if queue.is_empty() || self.since_close >= UPDATES_PER_CLOSE {
                self.since_close = 0;
                self.engine.close_gone(self.closer.as_mut(), now);
            }
        }
    }

    fn tell_news(&self) {
        let policies = self.engine.policies();
        tell(&self.epoch, policies.epoch());
        tell(&self.steered, policies.steering());
        tell(&self.aged, self.engine.shortest_age());
    }

    fn execute(&mut self, command: Command) {
        // A reply that nobody waits for any more is no error: its stream broke meanwhile.
        if !matches!(command, Command::Query(_)) {
            self.engine.generation += 1;
        }
        match command {
            Command::Apply(update, reply) => {
                self.since_close += 1;
                let _ = reply.send(self.engine.apply(update, Instant::now()));
            }
            Command::Synced(reply) => {
                self.engine.set_synced(Instant::now());
                let _ = reply.send(());
            }
            Command::PoliciesKnown(reply) => {
                self.engine.set_policies_known();
                let _ = reply.send(());
            }
            Command::Interfaces(interfaces) => self.engine.set_interfaces(interfaces),
            Command::Query(query) => query(&self.engine),
        }
    }
}

fn tell<T: PartialEq>(listeners: &watch::Sender<T>, news: T) {
    listeners.send_if_modified(|told| {
        let is_news = *told != news;
        *told = news;
        is_news
    });
}

enum Next {
    Do(Command),
    Idle,
    Stop,
}
