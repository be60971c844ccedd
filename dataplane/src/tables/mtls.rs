//! Maps `mtls_modes` and `mtls_state`: what pods take from other nodes.

use std::net::IpAddr;

use weft_proto::model::MtlsMode;

use super::Table;
use super::address;
use crate::bpf::Record;
use crate::bpf::types::{self, mtls_flags as flags, mtls_mode as modes};

/// Both of them.
pub struct MtlsTables {
    /// By address and port.
    pub modes: Box<dyn Table<ModeKey, Mode>>,
    /// One entry, under 0.
    pub state: Box<dyn Table<u32, MtlsState>>,
}

/// Whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModeKey {
    /// A pod's address.
    pub address: IpAddr,
    /// 0: all that have no entry of their own.
    pub port: u16,
}

/// What it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// From other nodes.
    pub mode: MtlsMode,
    /// It is a pod of this node.
    pub here: bool,
    /// Some of its ports have entries of their own.
    pub ports: bool,
}

/// Whether anybody has to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MtlsState {
    /// This node opens tunnels, and somebody takes them.
    pub opens: bool,
    /// A local pod takes no plain text.
    pub requires: bool,
    /// Local pods without an entry are to require mTLS: some found no room.
    pub no_room: bool,
}

impl Record for ModeKey {
    type Raw = types::mtls_key;

    fn to_raw(&self) -> Self::Raw {
        types::mtls_key {
            addr: address::to_raw(self.address),
            port: self.port.to_be(),
            pad: 0,
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            address: address::from_raw(raw.addr),
            port: u16::from_be(raw.port),
        })
    }
}

impl Record for Mode {
    type Raw = u32;

    fn to_raw(&self) -> u32 {
        let mode = match self.mode {
            MtlsMode::Permissive => modes::MTLS_PERMISSIVE,
            MtlsMode::Strict => modes::MTLS_STRICT,
            MtlsMode::Disable => modes::MTLS_DISABLE,
        };
        let flag = |set: bool, flag: modes| if set { flag.0 } else { 0 };
        mode.0 | flag(self.here, modes::MTLS_HERE) | flag(self.ports, modes::MTLS_PORTS)
    }

    fn from_raw(raw: u32) -> Option<Self> {
        Some(Self {
            mode: match modes(raw & modes::MTLS_MODE.0) {
                modes::MTLS_PERMISSIVE => MtlsMode::Permissive,
                modes::MTLS_STRICT => MtlsMode::Strict,
                modes::MTLS_DISABLE => MtlsMode::Disable,
                _ => return None,
            },
            here: raw & modes::MTLS_HERE.0 != 0,
            ports: raw & modes::MTLS_PORTS.0 != 0,
        })
    }
}

impl Record for MtlsState {
    type Raw = types::mtls_state;

    fn to_raw(&self) -> Self::Raw {
        let flag = |set: bool, flag: flags| if set { flag.0 } else { 0 };
        types::mtls_state {
            flags: flag(self.opens, flags::MTLS_OPENS)
                | flag(self.requires, flags::MTLS_REQUIRES)
                | flag(self.no_room, flags::MTLS_NO_ROOM),
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        let has = |flag: flags| raw.flags & flag.0 != 0;
        Some(Self {
            opens: has(flags::MTLS_OPENS),
            requires: has(flags::MTLS_REQUIRES),
            no_room: has(flags::MTLS_NO_ROOM),
        })
    }
}
