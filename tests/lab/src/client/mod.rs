//! `weft-probe` in pods and on nodes: servers and clients for tests.

mod options;

pub use options::{GetOptions, LoadOptions, ServeOptions};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::probe::{Attempt, Held, Landing, Summary};
use crate::{LabError, Launch, Node, Place, Pod, Process, Result, tools};

/// What the server prints once all its sockets are bound.
pub const READY: &str = "weft-probe ready";
const READY_WITHIN: Duration = Duration::from_secs(10);
/// Time for a program to start and end, on top of what it was asked to take.
const MARGIN: Duration = Duration::from_secs(20);

/// A load run in the background.
#[derive(Debug)]
pub struct Load {
    process: Process,
    within: Duration,
    log: Option<PathBuf>,
}

impl Load {
    /// Waits for its end and returns the sum.
    ///
    /// # Errors
    /// When it does not end in time or fails to start.
    pub fn finish(mut self) -> Result<Summary> {
        self.process.finish(self.within)?.success()?.json()
    }

    /// As [`Load::finish`], with every connect it logged.
    ///
    /// # Errors
    /// As [`Load::finish`], and when the log cannot be read.
    pub fn finish_with_log(self) -> Result<(Summary, Vec<Landing>)> {
        let log = self.log.clone();
        let summary = self.finish()?;
        let Some(path) = log else {
            return Ok((summary, Vec::new()));
        };
        let text = std::fs::read_to_string(&path).map_err(LabError::io("read", &path))?;
        let parse = |line: &str| {
            serde_json::from_str(line).map_err(|source| LabError::Parse {
                command: format!("log {}", path.display()),
                source,
                output: line.to_owned(),
            })
        };
        Ok((summary, text.lines().map(parse).collect::<Result<_>>()?))
    }
}

/// A connection held in the background.
#[derive(Debug)]
pub struct Hold {
    process: Process,
    within: Duration,
}

impl Hold {
    /// Name of the server that the connection landed on.
    pub fn server(&self) -> Option<String> {
        let said = self.process.stderr();
        let line = said.lines().find_map(|line| line.strip_prefix(HOLDING))?;
        Some(line.trim().to_owned())
    }

    /// Waits until it is broken or its time is over.
    ///
    /// # Errors
    /// When the probe fails.
    pub fn finish(mut self) -> Result<Held> {
        self.process.finish(self.within)?.success()?.json()
    }
}

impl Place {
    fn probe(&self) -> Result<Launch> {
        Ok(self.command(tools::probe()?))
    }

    /// Starts a server here; returns when it listens.
    ///
    /// # Errors
    /// When it cannot be started or bind its ports.
    pub fn serve(&self, options: &ServeOptions) -> Result<Process> {
        let mut process = self.probe()?.args(options.args(&self.label)).spawn()?;
        process.wait_for_line(READY, READY_WITHIN)?;
        Ok(process)
    }

    /// Asks `to`; one attempt for each request, also for those that failed.
    ///
    /// # Errors
    /// When the probe itself fails; a failed request is no error.
    pub fn get(&self, to: SocketAddr, options: &GetOptions) -> Result<Vec<Attempt>> {
        let within = options.timeout * 2 * options.count.max(1) + MARGIN;
        let output = self.probe()?.args(options.args(to)).run(within)?;
        output.success()?.json_lines()
    }

    /// Starts a load on `to`.
    ///
    /// # Errors
    /// When the probe cannot be started.
    pub fn load(&self, to: SocketAddr, options: &LoadOptions) -> Result<Load> {
        Ok(Load {
            process: self.probe()?.args(options.args(to)).spawn()?,
            within: options.duration + options.timeout * 2 + MARGIN,
            log: options.log.clone(),
        })
    }

    /// Opens a connection to `to` (a connected socket, for UDP), makes one request and holds it for `longest`; returns
    /// when the answer has come.
    ///
    /// # Errors
    /// When no connection comes about.
    pub fn hold(&self, to: SocketAddr, udp: bool, longest: Duration) -> Result<Hold> {
        let more: &[&str] = if udp { &["--udp"] } else { &[] };
        self.hold_with(to, longest, more)
    }

    /// As [`Place::hold`] over TCP, with a request every few milliseconds.
    ///
    /// # Errors
    /// As there.
    pub fn hold_busy(&self, to: SocketAddr, longest: Duration) -> Result<Hold> {
        self.hold_with(to, longest, &["--ping", "5"])
    }

    fn hold_with(&self, to: SocketAddr, longest: Duration, more: &[&str]) -> Result<Hold> {
        let launch = self.probe()?.arg("hold").arg(to.to_string());
        let launch = launch.arg("--for").arg(longest.as_millis().to_string());
        let mut process = launch.args(more).spawn()?;
        process.wait_for_line(HOLDING, READY_WITHIN)?;
        Ok(Hold {
            process,
            within: longest + MARGIN,
        })
    }

    /// Sends `count` packets to `to` that say they come from `from`: SYNs, or datagrams. Nothing is waited for.
    ///
    /// # Errors
    /// When they cannot be sent.
    pub fn spoof(&self, from: SocketAddr, to: SocketAddr, udp: bool, count: u32) -> Result<()> {
        let launch = self.probe()?.arg("spoof");
        let launch = launch.args([from.to_string(), to.to_string()]);
        let launch = launch.arg("--count").arg(count.to_string());
        let launch = if udp { launch.arg("--udp") } else { launch };
        launch.run(MARGIN)?.success()?;
        Ok(())
    }

    /// Sends a SYN to `to` from each of so many ports of `from`, and answers nothing that comes back.
    ///
    /// # Errors
    /// When they cannot be sent.
    pub fn flood(&self, from: SocketAddr, to: SocketAddr, ports: u16) -> Result<()> {
        let launch = self.probe()?.arg("spoof");
        let launch = launch.args([from.to_string(), to.to_string()]);
        let ports = ports.to_string();
        let launch = launch.args(["--count", &ports, "--ports", &ports]);
        launch.run(MARGIN)?.success()?;
        Ok(())
    }
}

/// What `weft-probe hold` prints to standard error once the connection stands, before the server's name.
pub const HOLDING: &str = "weft-probe holding";

macro_rules! at_place {
    ($type:ty, $place:ident) => {
        impl $type {
            /// See [`Place::serve`].
            ///
            /// # Errors
            /// As there.
            pub fn serve(&self, options: &ServeOptions) -> Result<Process> {
                self.$place().serve(options)
            }

            /// See [`Place::get`].
            ///
            /// # Errors
            /// As there.
            pub fn get(&self, to: SocketAddr, options: &GetOptions) -> Result<Vec<Attempt>> {
                self.$place().get(to, options)
            }

            /// See [`Place::load`].
            ///
            /// # Errors
            /// As there.
            pub fn load(&self, to: SocketAddr, options: &LoadOptions) -> Result<Load> {
                self.$place().load(to, options)
            }

            /// See [`Place::hold`].
            ///
            /// # Errors
            /// As there.
            pub fn hold(&self, to: SocketAddr, udp: bool, longest: Duration) -> Result<Hold> {
                self.$place().hold(to, udp, longest)
            }

            /// See [`Place::hold_busy`].
            ///
            /// # Errors
            /// As there.
            pub fn hold_busy(&self, to: SocketAddr, longest: Duration) -> Result<Hold> {
                self.$place().hold_busy(to, longest)
            }

            /// See [`Place::spoof`].
            ///
            /// # Errors
            /// As there.
            pub fn spoof(
                &self,
                from: SocketAddr,
                to: SocketAddr,
                udp: bool,
                count: u32,
            ) -> Result<()> {
                self.$place().spoof(from, to, udp, count)
            }
        }
    };
}

at_place!(Pod, place);
at_place!(Node, host);
