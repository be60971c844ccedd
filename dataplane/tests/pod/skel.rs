//! Generated: the object and its types, as the agent has them.
#![allow(unsafe_code, dead_code, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/weft.skel.rs"));
