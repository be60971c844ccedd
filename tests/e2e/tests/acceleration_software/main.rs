//! Software that knows nothing of Weft, over same-node acceleration: nothing fails, and its answers are those that it gives over TCP.
//!
//! Everything runs once without acceleration, once with `auto` and once with `eager`. What the agent counts has to fit what the
//! software does with its sockets: see [`site::Polling`]. The programs come from Debian: `scripts/install-software` installs them.

mod memcached;
mod postgres;
mod redis;
mod rpc;
mod site;
mod transfer;
mod web;
