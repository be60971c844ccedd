//! What `weft-probe` is asked to do, and the arguments that say so.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How a server is to behave.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    tcp: Vec<u16>,
    udp: Vec<u16>,
    silent: bool,
    reset: bool,
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

    /// Accepts and resets at once.
    pub fn reset(mut self) -> Self {
        self.reset = true;
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

    pub(super) fn args(&self, place_name: &str) -> Vec<String> {
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
        if self.reset {
            args.push("--reset".into());
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
    /// Bytes of each request, and of its answer, at least.
    pub size: usize,
    /// For UDP: the client's port; 0 for any.
    pub from_port: u16,
}

impl Default for GetOptions {
    fn default() -> Self {
        Self {
            udp: false,
            connected: false,
            count: 1,
            keep: false,
            timeout: Duration::from_secs(5),
            size: 0,
            from_port: 0,
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

    /// Fills each request up to so many bytes.
    pub fn size(mut self, size: usize) -> Self {
        self.size = size;
        self
    }

    /// For UDP: all from this port.
    pub fn from_port(mut self, port: u16) -> Self {
        self.from_port = port;
        self
    }

    pub(super) fn args(&self, to: SocketAddr) -> Vec<String> {
        let mut args = vec!["get".into(), to.to_string()];
        if self.from_port != 0 {
            args.extend(["--from-port".into(), self.from_port.to_string()]);
        }
        args.extend(["--count".into(), self.count.to_string()]);
        args.extend(["--size".into(), self.size.to_string()]);
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

    pub(super) fn args(&self, to: SocketAddr) -> Vec<String> {
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
