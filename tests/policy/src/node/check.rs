//! `struct check` of bpf/include/abi/conntrack.h.

use super::kernel::address;
use crate::connection::Connection;
use crate::evaluate::Side;
use crate::packet::protocol_number;

const SIZE: usize = 88;
const PORTS: usize = 32;
const PROTOCOL: usize = 36;
/// Whether each side is known, and where its `struct rule` is.
const SIDES: [(usize, usize); 2] = [(37, 48), (38, 68)];
/// In `struct rule`.
const AUDIT: usize = 12;
const VERDICT: usize = 16;
const REASON: usize = 17;
const VERDICT_ALLOW: u8 = 1;
const REASON_LAYER7: u8 = 5;

/// What `weft_check` says about one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Let through.
    pub allowed: bool,
    /// Refused, because only a proxy could tell.
    pub layer7: bool,
    /// An audited rule would have refused.
    pub audited: bool,
}

/// About both ends, if they are on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BothChecked([Option<Checked>; 2]);

impl BothChecked {
    /// About one of them.
    #[must_use]
    pub const fn side(&self, side: Side) -> Option<Checked> {
        match side {
            Side::Egress => self.0[0],
            Side::Ingress => self.0[1],
        }
    }
}

pub(super) fn question(connection: &Connection) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..16].copy_from_slice(&address(connection.source));
    bytes[16..32].copy_from_slice(&address(connection.destination));
    bytes[PORTS..PORTS + 2].copy_from_slice(&connection.source_port.to_be_bytes());
    bytes[PORTS + 2..PORTS + 4].copy_from_slice(&connection.destination_port.to_be_bytes());
    bytes[PROTOCOL] = protocol_number(connection);
    bytes
}

pub(super) fn answer(bytes: &[u8; SIZE]) -> BothChecked {
    BothChecked(SIDES.map(|(known, rule)| {
        let allowed = bytes[rule + VERDICT] == VERDICT_ALLOW;
        (bytes[known] != 0).then(|| Checked {
            allowed,
            layer7: !allowed && bytes[rule + REASON] == REASON_LAYER7,
            audited: bytes[rule + AUDIT..rule + AUDIT + 4] != [0; 4],
        })
    }))
}
