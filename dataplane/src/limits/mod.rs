//! Timeouts, limits and outlier ejection: what services ask for besides a backend.
//!
//! [`settings`] compiles it, [`Ledger`] keeps the tables in step. A service's settings and its state are written before its VIPs
//! say that it has any, and settings go after they have stopped to. Its state stays as long as the service: sockets that were
//! counted into it leave it whenever they end, long after limits were taken away and perhaps set again.

mod ledger;
mod settings;
mod tend;
mod time;

pub(crate) use ledger::Ledger;
pub(crate) use settings::settings;
pub use tend::Tender;
pub(crate) use tend::{HealthIterator, tend};
pub(crate) use time::time_left;
