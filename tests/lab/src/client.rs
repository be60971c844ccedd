//! `weft-probe` in pods and on nodes: servers and clients for tests.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::probe::{Attempt, Held, Landing, Summary};
use crate::process::{Launch, Place, Process};
use crate::{LabError, Node, Pod, Result, tools};

/// What the server prints once all its sockets are bound.
pub const READY: &str = "weft-probe ready";
const READY_WITHIN: Duration = Duration::from_secs(10);
/// Time for a program to start and end, on top of what it was asked to take.
const MARGIN: Duration = Duration::from_secs(20);

/// How a server is to behave.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    tcp: Vec<u16>,
    udp: Vec<u16>,
    silent: bool,
    delay: Option<Duration>,
    name: Option<String>,
}

impl ServeOptions {
    /// Serves TCP on `port`.
    pub fn tcp(port: u16) -> Self {
        Self::default().and_tcp(port)
    }

    /// Serves UDP on `port`.
    pub fn udp(port: u16) -> Self {
        Self::default().and_udp(port)
    }

    /// Serves TCP on `port` too.
    pub fn and_tcp(mut self, port: u16) -> Self {
        self.tcp.push(port);
        self
    }

    /// Serves UDP on `port` too.
    pub fn and_udp(mut self, port: u16) -> Self {
        self.udp.push(port);
        self
    }

    /// Accepts and reads, but never answers.
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    /// Waits this long before each answer.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Calls itself so in its answers, instead of by the pod's or node's name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    fn args(&self, place_name: &str) -> Vec<String> {
        let name = self.name.as_deref().unwrap_or(place_name);
        let mut args = vec!["serve".into(), "--name".into(), name.to_owned()];
        for (flag, ports) in [("--tcp", &self.tcp), ("--udp", &self.udp)] {
            for port in ports {
                args.extend([flag.to_owned(), port.to_string()]);
            }
        }
        if self.silent {
            args.push("--silent".into());
        }
        if let Some(delay) = self.delay {
            args.extend(["--delay".into(), delay.as_millis().to_string()]);
        }
        args
    }
}

/// How a client asks.
#[derive(Debug, Clone)]
pub struct GetOptions {
    /// UDP instead of TCP.
    pub udp: bool,
    /// For UDP: `connect` the socket first.
    pub connected: bool,
    /// Requests to make.
    pub count: u32,
    /// All requests over one connection or socket, instead of a new one for each.
    pub keep: bool,
    /// Longest wait for one connect or answer.
    pub timeout: Duration,
}

impl Default for GetOptions {
    fn default() -> Self {
        Self {
            udp: false,
            connected: false,
            count: 1,
            keep: false,
            timeout: Duration::from_secs(5),
        }
    }
}

impl GetOptions {
    /// `count` TCP requests, each over a new connection.
    pub fn tcp(count: u32) -> Self {
        Self {
            count,
            ..Self::default()
        }
    }

    /// `count` UDP requests, each from a new, unconnected socket.
    pub fn udp(count: u32) -> Self {
        Self {
            udp: true,
            ..Self::tcp(count)
        }
    }

    /// `count` UDP requests, each from a new, connected socket.
    pub fn udp_connected(count: u32) -> Self {
        Self {
            connected: true,
            ..Self::udp(count)
        }
    }

    /// All over one connection or socket.
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Waits at most so long for each.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn args(&self, to: SocketAddr) -> Vec<String> {
        let mut args = vec!["get".into(), to.to_string()];
        args.extend(["--count".into(), self.count.to_string()]);
        args.extend(["--timeout".into(), self.timeout.as_millis().to_string()]);
        for (flag, on) in [
            ("--udp", self.udp),
            ("--connected", self.connected),
            ("--keep", self.keep),
        ] {
            if on {
                args.push(flag.into());
            }
        }
        args
    }
}

/// A load to be made.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// UDP instead of TCP.
    pub udp: bool,
    /// Requests over open connections, instead of a new one for each.
    pub keep: bool,
    /// Workers, each with one request at a time.
    pub concurrency: u32,
    /// How long.
    pub duration: Duration,
    /// Requests a second over all workers; 0 for as many as go.
    pub rate: u32,
    /// Longest wait for one connect or answer.
    pub timeout: Duration,
    /// Where to write one [`Landing`] a line.
    pub log: Option<PathBuf>,
}

impl LoadOptions {
    /// New TCP connections, `rate` a second from four workers.
    pub fn connects(rate: u32, duration: Duration) -> Self {
        Self {
            udp: false,
            keep: false,
            concurrency: 4,
            duration,
            rate,
            timeout: Duration::from_secs(5),
            log: None,
        }
    }

    /// Requests over open TCP connections, `rate` a second from four workers.
    pub fn requests(rate: u32, duration: Duration) -> Self {
        Self {
            keep: true,
            ..Self::connects(rate, duration)
        }
    }

    fn args(&self, to: SocketAddr) -> Vec<String> {
        let mut args = vec!["load".into(), to.to_string()];
        for (flag, value) in [
            ("--concurrency", u128::from(self.concurrency)),
            ("--duration", self.duration.as_millis()),
            ("--rate", u128::from(self.rate)),
            ("--timeout", self.timeout.as_millis()),
        ] {
            args.extend([flag.to_owned(), value.to_string()]);
        }
        for (flag, on) in [("--udp", self.udp), ("--keep", self.keep)] {
            if on {
                args.push(flag.into());
            }
        }
        if let Some(log) = &self.log {
            args.extend(["--log".into(), log.display().to_string()]);
        }
        args
    }
}

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
        let launch = self.probe()?.arg("hold").arg(to.to_string());
        let launch = launch.arg("--for").arg(longest.as_millis().to_string());
        let launch = if udp { launch.arg("--udp") } else { launch };
        let mut process = launch.spawn()?;
        process.wait_for_line(HOLDING, READY_WITHIN)?;
        Ok(Hold {
            process,
            within: longest + MARGIN,
        })
    }
}

/// What `weft-probe hold` prints to standard error once the connection stands.
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
        }
    };
}

at_place!(Pod, place);
at_place!(Node, host);
