//! The connections that the kernel remembers: how long, what is thrown out when, and the list of them.
//!
//! The kernel ages them itself: `weft_sweep` runs over the table inside the kernel, when the [`sweeper`] says so.

mod connection;
mod describe;
pub mod sweeper;
mod timeouts;

pub use connection::{Capacity, Connection, ConnectionSource, State};
pub use sweeper::{SweepProgram, SweepReport, Swept};
pub use timeouts::Timeouts;

pub(crate) use describe::describe;
