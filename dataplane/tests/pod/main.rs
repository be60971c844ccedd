//! The programs at pod interfaces, run by `BPF_PROG_TEST_RUN` over tables that the test fills: packets in, verdicts, flows and
//! events out.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub
)]

mod bytes;
mod node;
mod packet;
mod skel;

mod check;
mod datagrams;
mod events;
mod fragments;
mod icmp;
mod identities;
mod inbound;
mod malformed;
mod policies;
mod proxy;
mod revoked;
mod sweep;
mod tcp_close;
mod tcp_open;
