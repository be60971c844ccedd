//! Generated: the object and its types.
#![allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    dead_code,
    clippy::all,
    clippy::unwrap_used,
    clippy::panic
)]

include!(concat!(env!("OUT_DIR"), "/weft.skel.rs"));
