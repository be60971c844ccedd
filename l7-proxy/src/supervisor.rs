//! Keeps one Envoy alive.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::process::{Plan, Process};
use crate::upgrade::{Binary, retire};
use crate::{Bootstrap, Envoy, EnvoyChoice, admin, find};

/// How often a starting Envoy is asked whether it is ready.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How often one that serves is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// One that has never become ready in this time hangs.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// So many questions in a row that find no answer: it hangs.
const MAX_SILENCE: u32 = 10;
/// Between two starts, at first; doubled with each failure, with jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// One that served for so long has not failed at its start.
const STABLE: Duration = Duration::from_secs(10);
/// Requests may take so long to end once the agent stops.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);
/// Then Envoy has so long to end.
const END_WITHIN: Duration = Duration::from_secs(3);
/// Longest path of a Unix socket.
const MAX_SOCKET_PATH: usize = 107;

/// Why Envoy cannot be run at all.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// Its folder.
    #[error("Envoy's folder {folder}: {source}")]
    Folder {
        /// Which.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A socket could not be made there.
    #[error(
        "{0}: longer than a Unix socket's path may be ({MAX_SOCKET_PATH} bytes): give a shorter --run-dir"
    )]
    TooLong(PathBuf),
}

/// Starts Envoy, and starts it again.
#[derive(Debug)]
pub struct Supervisor {
    envoy: Envoy,
    node: String,
    folder: PathBuf,
    launcher: Vec<PathBuf>,
    ready: watch::Sender<bool>,
}

impl Supervisor {
    /// For `envoy` on the node of this name, with `folder` for its files. `launcher` stands before Envoy's own words: a program that
    /// makes sure that Envoy ends with the agent, and then becomes Envoy.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(
        envoy: Envoy,
        node: &str,
        folder: &Path,
        launcher: Vec<PathBuf>,
    ) -> Result<Self, SupervisorError> {
        let supervisor = Self {
            envoy,
            node: node.to_owned(),
            folder: folder.to_owned(),
            launcher,
            ready: watch::Sender::new(false),
        };
        if supervisor.control().as_os_str().len() > MAX_SOCKET_PATH {
            return Err(SupervisorError::TooLong(supervisor.control()));
        }
        supervisor
            .prepare()
            .map_err(|source| SupervisorError::Folder {
                folder: folder.to_owned(),
                source,
            })?;
        Ok(supervisor)
    }

    /// Whether Envoy serves.
    #[must_use]
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// The Unix socket where Envoy looks for its control plane.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    fn admin(&self) -> PathBuf {
        self.folder.join("admin.sock")
    }

    /// Only root may read and ask.
    fn prepare(&self) -> io::Result<()> {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder);
        made?;
        let (control, admin) = (self.control(), self.admin());
        let bootstrap = Bootstrap {
            node: &self.node,
            control: &control,
            admin: &admin,
            ipv6: TcpListener::bind("[::1]:0").is_ok(),
        };
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(self.config())?;
        io::Write::write_all(&mut file, bootstrap.config().to_string().as_bytes())
    }

    fn config(&self) -> PathBuf {
        self.folder.join("bootstrap.json")
    }

    /// Runs Envoy until `drain` is cancelled and it has ended. When there is another binary at its path, that one takes over without
    /// losing a request.
    pub async fn run(mut self, drain: CancellationToken) {
        let mut pause = FIRST_PAUSE;
        while !drain.is_cancelled() {
            let began = Instant::now();
            match self.run_once(&drain).await {
                Ok(ended) if drain.is_cancelled() => tracing::debug!("Envoy has ended: {ended}"),
                Ok(ended) => {
                    tracing::error!("Envoy has ended: {ended}; layer 7 is refused until it is back")
                }
                Err(e) => tracing::error!("{} cannot be started: {e}", self.envoy.path.display()),
            }
            self.ready.send_replace(false);
            if began.elapsed() >= STABLE {
                pause = FIRST_PAUSE;
            }
            tokio::select! {
                () = drain.cancelled() => {}
                () = tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        for socket in [self.admin(), self.control()] {
            let _ = fs::remove_file(socket);
        }
    }

    async fn run_once(&mut self, drain: &CancellationToken) -> io::Result<String> {
        let mut process = self.start().await?;
        let mut binary = Binary::at(&self.envoy.path);
        let reason = loop {
            tokio::select! {
                ended = process.ended() => return Ok(ended?.to_string()),
                () = drain.cancelled() => {
                    tokio::select! {
                        ended = process.ended() => return Ok(ended?.to_string()),
                        () = self.drain() => {}
                    }
                    break "the agent stops";
                }
                () = self.watch() => break "it does not answer",
                changed = Binary::changed(&self.envoy.path, binary) => {
                    binary = Some(changed);
                    process = self.replace(process).await;
                }
            }
        };
        self.ready.send_replace(false);
        process.signal(Signal::TERM);
        let ended = match tokio::time::timeout(END_WITHIN, process.ended()).await {
            Ok(ended) => ended,
            Err(_) => {
                process.signal(Signal::KILL);
                process.ended().await
            }
        };
        Ok(format!("{reason}; {}", ended?))
    }

    async fn start(&self) -> io::Result<Process> {
        // One that was killed leaves its socket, and the next would answer for it.
        let _ = fs::remove_file(self.admin());
        let process = Process::start(Plan {
            launcher: self.launcher.clone(),
            envoy: self.envoy.path.clone(),
            config: self.config(),
        })
        .await?;
        tracing::info!(
            "Envoy {} starts: process {}",
            self.envoy.version,
            process.id()
        );
        Ok(process)
    }

    /// Starts the binary that is there now beside `old`, and has `old` end once the new one serves and nothing is open there any more. Returns
    /// `old` if the new one does not come to serve.
    async fn replace(&mut self, old: Process) -> Process {
        let (path, before) = (self.envoy.path.clone(), self.envoy.version);
        match find(&EnvoyChoice::Path(path)).await {
            Ok(Some(envoy)) => self.envoy = envoy,
            Ok(None) => return old,
            Err(e) => {
                tracing::error!("Envoy {before} goes on: {e}");
                return old;
            }
        }
        // A socket can still be reached when its file has another name.
        let aside = self.folder.join(format!("admin.{}.sock", old.id()));
        if let Err(e) = fs::rename(self.admin(), &aside) {
            tracing::error!("Envoy {before} goes on: {}: {e}", self.admin().display());
            return old;
        }
        let failed = match self.start().await {
            Ok(mut new) => {
                tokio::select! {
                    ended = new.ended() => match ended {
                        Ok(status) => format!("it has ended: {status}"),
                        Err(e) => e.to_string(),
                    },
                    () = self.serves() => {
                        tracing::info!("Envoy {} takes over from {before}", self.envoy.version);
                        tokio::spawn(retire(old, aside));
                        return new;
                    }
                    () = tokio::time::sleep(READY_WITHIN) => {
                        new.signal(Signal::KILL);
                        let _ = new.ended().await;
                        "it does not get ready".to_owned()
                    }
                }
            }
            Err(e) => e.to_string(),
        };
        tracing::error!(
            "Envoy {} cannot take over: {failed}; {before} goes on",
            self.envoy.version
        );
        self.envoy.version = before;
        let _ = fs::rename(aside, self.admin());
        old
    }

    async fn serves(&self) {
        while !admin::is_ready(&self.admin()).await {
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Returns when Envoy hangs.
    async fn watch(&self) {
        let (began, mut silent) = (Instant::now(), 0);
        loop {
            let is_ready = admin::is_ready(&self.admin()).await;
            let was_ready = self.ready.send_if_modified(|ready| {
                let news = is_ready && !*ready;
                *ready |= is_ready;
                news
            });
            if was_ready {
                tracing::info!("Envoy serves, {:?} after its start", began.elapsed());
            }
            let serves = *self.ready.borrow();
            silent = if is_ready {
                0
            } else {
                silent + u32::from(serves)
            };
            if silent > MAX_SILENCE || (!serves && began.elapsed() > READY_WITHIN) {
                return;
            }
            tokio::time::sleep(if serves { LOOK_EVERY } else { ASK_EVERY }).await;
        }
    }

    /// No new connections; those that are open may end what they do.
    async fn drain(&self) {
        self.ready.send_replace(false);
        let _ = admin::drain(&self.admin()).await;
        let deadline = Instant::now() + DRAIN_WITHIN;
        while Instant::now() < deadline {
            match admin::open_connections(&self.admin()).await {
                Ok(0) | Err(_) => return,
                Ok(_) => tokio::time::sleep(ASK_EVERY).await,
            }
        }
    }
}
