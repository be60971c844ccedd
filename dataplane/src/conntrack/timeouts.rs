//! How long a connection is remembered after its last packet, where its service's TrafficPolicy says nothing else.

use std::time::Duration;

use crate::bpf::{Record, types};

/// Seconds after the last packet, by state.
///
/// A connection that expires between live sockets is closed at both ends, so these are for what is dead rather than idle:
/// generous where an application may legitimately be silent, short where only a stray packet can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// SYN without an answer. Longer than the longest pause between two SYNs of Linux, 64 s, and below the 4 minutes that RFC 5382
    /// REQ-5 asks of a NAT: nobody waits for what has never been answered, and a later SYN-ACK finds a later SYN.
    pub tcp_new: u32,
    /// Handshake complete. RFC 5382 REQ-5 asks for at least 2 h 4 min, which lets keep-alives of every 2 hours through. A day, as
    /// kube-proxy has it, so that pools of database connections survive a night without keep-alives.
    pub tcp_established: u32,
    /// One FIN: the other end may send for as long as it likes. An hour, as kube-proxy has it (`tcpCloseWaitTimeout`).
    pub tcp_closing: u32,
    /// Both FINs or RST: only repetitions of the good-bye are to come. RFC 5382 lets a NAT forget at once; ten seconds let ports be
    /// used again, while a million entries do for 100,000 connections a second.
    pub tcp_closed: u32,
    /// UDP without an answer. Longer than resolvers wait.
    pub udp_new: u32,
    /// UDP with an answer. RFC 4787 REQ-5: five minutes recommended, two at least.
    pub udp_established: u32,
    /// ICMP echo and other protocols. RFC 5508 REQ-2: at least 60 s.
    pub other: u32,
}

impl Timeouts {
    /// No connection is forgotten sooner than so long after its last packet; `None`: none ever is.
    #[must_use]
    pub fn shortest(&self) -> Option<Duration> {
        let all = [
            self.tcp_new,
            self.tcp_established,
            self.tcp_closing,
            self.tcp_closed,
            self.udp_new,
            self.udp_established,
            self.other,
        ];
        // As in the kernel, 0 is never.
        let least = all.into_iter().filter(|seconds| *seconds > 0).min();
        least.map(|seconds| Duration::from_secs(seconds.into()))
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            tcp_new: 120,
            tcp_established: 24 * 3_600,
            tcp_closing: 3_600,
            tcp_closed: 10,
            udp_new: 30,
            udp_established: 300,
            other: 60,
        }
    }
}

impl Record for Timeouts {
    type Raw = types::ct_settings;

    fn to_raw(&self) -> Self::Raw {
        types::ct_settings {
            tcp_new_s: self.tcp_new,
            tcp_established_s: self.tcp_established,
            tcp_closing_s: self.tcp_closing,
            tcp_closed_s: self.tcp_closed,
            udp_new_s: self.udp_new,
            udp_established_s: self.udp_established,
            other_s: self.other,
            ..Default::default()
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            tcp_new: raw.tcp_new_s,
            tcp_established: raw.tcp_established_s,
            tcp_closing: raw.tcp_closing_s,
            tcp_closed: raw.tcp_closed_s,
            udp_new: raw.udp_new_s,
            udp_established: raw.udp_established_s,
            other: raw.other_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_what_was_meant() {
        let timeouts = Timeouts::default();
        assert_eq!(Timeouts::from_raw(timeouts.to_raw()), Some(timeouts));
        assert_eq!(timeouts.to_raw().tcp_established_s, 86_400);
    }

    #[test]
    fn the_shortest_is_that_of_closed_connections_unless_it_is_never() {
        let timeouts = Timeouts::default();
        assert_eq!(timeouts.shortest(), Some(Duration::from_secs(10)));
        let without = Timeouts {
            tcp_closed: 0,
            ..timeouts
        };
        assert_eq!(without.shortest(), Some(Duration::from_secs(30)));
    }
}
