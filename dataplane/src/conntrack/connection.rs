//! An entry of `ct` or `ct_pending`.

use std::net::SocketAddr;

use crate::bpf::types;
use crate::flow::{self, Reason, protocol};

use super::Timeouts;

/// Where a connection stands: `enum flow_state` of bpf/include/abi/conntrack.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No answer yet.
    New,
    /// TCP: answered, handshake not complete.
    SynReceived,
    /// Answered; TCP: handshake complete.
    Established,
    /// TCP: one end has sent FIN.
    Closing,
    /// TCP: both have, or one has reset it.
    Closed,
    /// Refused by a later policy, or expired.
    Revoked,
}

impl State {
    const fn from_raw(raw: u8) -> Option<Self> {
        Some(match types::flow_state(raw as u32) {
            types::flow_state::FLOW_NEW => Self::New,
            types::flow_state::FLOW_SYN_RECEIVED => Self::SynReceived,
            types::flow_state::FLOW_ESTABLISHED => Self::Established,
            types::flow_state::FLOW_CLOSING => Self::Closing,
            types::flow_state::FLOW_CLOSED => Self::Closed,
            types::flow_state::FLOW_REVOKED => Self::Revoked,
            _ => return None,
        })
    }

    const fn is_new(self) -> bool {
        matches!(self, Self::New)
    }

    /// One word, for programs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::SynReceived => "syn-received",
            Self::Established => "established",
            Self::Closing => "closing",
            Self::Closed => "closed",
            Self::Revoked => "revoked",
        }
    }
}

/// A connection that the kernel remembers. Source is who opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Who opened it.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
    /// `IPPROTO_*`.
    pub protocol: u8,
    /// Where it stands.
    pub state: State,
    /// `CLOCK_MONOTONIC` of the first packet.
    pub first_ns: u64,
    /// Of the last one.
    pub last_ns: u64,
    /// Sent by source, by destination.
    pub bytes: [u64; 2],
    /// As `bytes`.
    pub packets: [u64; 2],
    /// Of source, of destination; 0: unknown.
    pub identity: [u32; 2],
    /// Policy epoch in which egress and ingress were judged; 0: not on this node.
    pub epoch: [u32; 2],
    /// Rule that let it out, and in; 0: none.
    pub rule: [u32; 2],
    /// 0: not known.
    pub service: u32,
    /// Seconds without a packet after which it expires; 0: its state's.
    pub idle_s: u32,
    /// Seconds after which it expires in any case; 0: never.
    pub lifetime_s: u32,
    /// 0: unknown.
    pub rtt_us: u32,
    /// TCP segments sent again.
    pub retransmits: u32,
    /// Why it was let through, or revoked.
    pub reason: Reason,
    /// Its beginning was not seen.
    pub picked_up: bool,
}

/// The most entries of the tables of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Connections with an answer.
    pub tracked: usize,
    /// Translations of connections from outside, two to four for each.
    pub nat: usize,
}

/// Where connections are read from.
pub trait ConnectionSource: Send + Sync {
    /// Gives `take` every connection, those with an answer first, until it returns false. One that comes or goes meanwhile may or
    /// may not be among them.
    fn each(&self, take: &mut dyn FnMut(Connection) -> bool);

    /// How much it can hold.
    fn capacity(&self) -> Capacity;
}

impl Connection {
    /// `None`: a state that this version does not know.
    pub(crate) fn from_raw(key: &types::flow_key, flow: &types::flow) -> Option<Self> {
        let end = |index: usize| flow::socket(key.addr[index], key.port[index]);
        let has = |flag: types::flow_flags| u32::from(flow.flags) & flag.0 != 0;
        let opener = usize::from(has(types::flow_flags::FLOW_FROM_END_1));
        let other = 1 - opener;
        let mut ends = [flow.end_0, flow.end_1];
        ends.rotate_left(opener);
        Some(Self {
            source: end(opener),
            destination: end(other),
            protocol: key.protocol,
            state: State::from_raw(flow.state)?,
            first_ns: flow.first_ns,
            last_ns: flow.last_ns,
            bytes: ends.map(|end| end.bytes),
            packets: ends.map(|end| end.packets),
            identity: [flow.identity[opener], flow.identity[other]],
            // These two are by direction, not by end.
            epoch: flow.epoch,
            rule: flow.rule,
            service: flow.service,
            idle_s: flow.idle_s,
            lifetime_s: flow.lifetime_s,
            rtt_us: flow.rtt_us,
            retransmits: flow.retransmits,
            reason: Reason::from_raw(flow.reason),
            picked_up: has(types::flow_flags::FLOW_PICKED_UP),
        })
    }

    /// Nanoseconds of `CLOCK_MONOTONIC` at which it expires unless another packet comes; as bpf/lib/age.h has it.
    #[must_use]
    pub fn expires_ns(&self, timeouts: &Timeouts) -> u64 {
        let idle = self.last_ns.saturating_add(seconds(self.idle(timeouts)));
        let is_open = matches!(self.state, State::Established | State::Closing);
        match self.lifetime_s {
            lifetime if lifetime > 0 && is_open => {
                idle.min(self.first_ns.saturating_add(seconds(lifetime)))
            }
            _ => idle,
        }
    }

    const fn idle(&self, timeouts: &Timeouts) -> u32 {
        match (self.protocol, self.state) {
            // The service's, once there is an answer, and until TCP begins to say good-bye.
            (protocol::TCP, State::Established) if self.idle_s > 0 => self.idle_s,
            (other, state) if other != protocol::TCP && !state.is_new() && self.idle_s > 0 => {
                self.idle_s
            }
            (protocol::TCP, State::New | State::SynReceived) => timeouts.tcp_new,
            (protocol::TCP, State::Established) => timeouts.tcp_established,
            (protocol::TCP, State::Closing) => timeouts.tcp_closing,
            (protocol::TCP, State::Closed | State::Revoked) => timeouts.tcp_closed,
            (protocol::UDP, State::New) => timeouts.udp_new,
            (protocol::UDP, _) => timeouts.udp_established,
            _ => timeouts.other,
        }
    }
}

const fn seconds(seconds: u32) -> u64 {
    seconds as u64 * 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::address;

    fn key() -> types::flow_key {
        types::flow_key {
            addr: [
                address::to_raw([10, 0, 0, 1].into()),
                address::to_raw([10, 0, 0, 2].into()),
            ],
            port: [80_u16.to_be(), 40_000_u16.to_be()],
            protocol: protocol::TCP,
            ..Default::default()
        }
    }

    #[test]
    fn ends_are_turned_so_that_the_opener_is_the_source() {
        let raw = types::flow {
            end_0: types::flow_end {
                bytes: 900,
                ..Default::default()
            },
            end_1: types::flow_end {
                bytes: 100,
                ..Default::default()
            },
            identity: [16, 17],
            rule: [5, 6],
            state: types::flow_state::FLOW_ESTABLISHED.0 as u8,
            flags: types::flow_flags::FLOW_FROM_END_1.0 as u8,
            ..Default::default()
        };
        let connection = Connection::from_raw(&key(), &raw).expect("a known state");
        assert_eq!(connection.source.to_string(), "10.0.0.2:40000");
        assert_eq!(connection.destination.to_string(), "10.0.0.1:80");
        assert_eq!(connection.bytes, [100, 900]);
        assert_eq!(connection.identity, [17, 16]);
        assert_eq!(connection.rule, [5, 6]);
    }

    #[test]
    fn whatever_comes_first_ends_it() {
        let raw = types::flow {
            first_ns: 1_000_000_000,
            last_ns: 5_000_000_000,
            state: types::flow_state::FLOW_ESTABLISHED.0 as u8,
            ..Default::default()
        };
        let mut connection = Connection::from_raw(&key(), &raw).expect("a known state");
        let timeouts = Timeouts::default();
        let expires = |c: &Connection| c.expires_ns(&timeouts) / 1_000_000_000;
        assert_eq!(expires(&connection), 5 + 86_400);
        connection.idle_s = 60;
        assert_eq!(expires(&connection), 65);
        connection.lifetime_s = 30;
        assert_eq!(expires(&connection), 31);
    }
}
