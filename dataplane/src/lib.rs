//! Node agent: compiles xDS into eBPF maps.
#![deny(unsafe_code)]

pub mod bpf;
pub mod close;
pub mod doctor;
pub mod tables;
