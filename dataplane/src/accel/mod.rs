//! Same-node acceleration as the agent handles it: whether there is any, and which pods take part.
//!
//! What the kernel does with it is in `bpf/include/abi/accel.h` and `bpf/accelerate.bpf.c`.

mod leaving;
mod namespaces;
mod pods;

use std::num::NonZeroU32;

use crate::doctor;

pub use leaving::{Leaving, LeavingSocket};
pub use pods::{AcceleratedPod, PodInterface, Pods};

/// Bytes that may be redirected and unread, by default.
pub const BOUND: NonZeroU32 = NonZeroU32::new(1024 * 1024).expect("not zero");

/// Who is accelerated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nobody; nothing of it is in the kernel.
    #[default]
    Off,
    /// Sockets that poll, of pods that have not opted out. They notice nothing of it.
    Auto,
    /// Sockets that block, too: `MSG_WAITALL` may end early there, and signals end `recv` with `EAGAIN`.
    Eager,
}

/// What the operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceleration {
    /// Who.
    pub mode: Mode,
    /// Bytes redirected and unread past which a direction goes back to TCP.
    pub bound: NonZeroU32,
    /// Whether connections within one pod are accelerated as well.
    pub loopback: bool,
}

impl Default for Acceleration {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            bound: BOUND,
            loopback: false,
        }
    }
}

impl Acceleration {
    /// What is possible here of what is wanted; why not, if that is nothing.
    pub(crate) fn here(self) -> (Self, Option<String>) {
        if self.mode == Mode::Off {
            return (self, None);
        }
        match doctor::unread_bytes() {
            Ok(_) => (self, None),
            Err(why) => {
                let mode = Mode::Off;
                let warning = format!("no same-node acceleration: {why}");
                (Self { mode, ..self }, Some(warning))
            }
        }
    }

    /// Whether there is any.
    #[must_use]
    pub fn is_on(self) -> bool {
        self.mode != Mode::Off
    }
}
