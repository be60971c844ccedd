//! What the users of a cluster are told about their objects: conditions in their status, and Events.
//!
//! The engine notes what it makes of each object on a [`Board`]. One replica, the holder of a Lease, writes what differs from
//! what the API server has; the others serve agents all the same, and keep a board of their own for the day they lead.

mod board;
mod conditions;
mod events;
mod lease;
mod routes;
mod writer;

pub(crate) use board::{Board, Change};
pub(crate) use writer::run;

/// Who writes, in `controllerName`, field managers and Events: a domain and a path, as the Gateway API wants it.
const CONTROLLER: &str = "weft.io/controller";
