//! What a process has used, from /proc.

use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Resident memory now, MiB.
    pub rss_mib: f64,
    /// Highest resident memory so far, MiB.
    pub peak_mib: f64,
    /// User and system time, of its ended children as well, seconds.
    pub cpu_seconds: f64,
}

/// Clock ticks per second in /proc/PID/stat: part of the kernel's interface, the
/// same on every architecture that Linux still supports.
const TICKS: f64 = 100.0;

impl Usage {
    /// Of process `pid`.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(pid: u32) -> Result<Self> {
        let read = |file: &str| {
            fs::read_to_string(format!("/proc/{pid}/{file}")).context("reading a process's usage")
        };
        Ok(Self::parse(&read("status")?, &read("stat")?))
    }

    fn parse(status: &str, stat: &str) -> Self {
        let mib = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
            kib.unwrap_or_default() / 1024.0
        };
        // utime, stime, cutime, cstime are fields 14 to 17; the command's name, in
        // parentheses, is field 2 and may hold blanks.
        let fields = stat
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest)
            .split_whitespace();
        let ticks: f64 = fields
            .skip(11)
            .take(4)
            .filter_map(|t| t.parse::<f64>().ok())
            .sum();
        Self {
            rss_mib: mib("VmRSS:"),
            peak_mib: mib("VmHWM:"),
            cpu_seconds: ticks / TICKS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let status = "Name:\tx\nVmHWM:\t    4096 kB\nVmRSS:\t    2048 kB\n";
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 90 0 0 0 150 50 20 30 20 0 1 0 5 6 7";
        let usage = Usage::parse(status, stat);
        assert_eq!((usage.rss_mib, usage.peak_mib), (2.0, 4.0));
        assert!((usage.cpu_seconds - 2.5).abs() < 1e-9);
    }
}
