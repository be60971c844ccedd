//! Node agent: compiles xDS into eBPF maps.
#![deny(unsafe_code)]

pub mod admin;
pub mod agent;
pub mod bpf;
pub mod close;
pub mod compile;
pub mod datapath;
pub mod doctor;
pub mod engine;
pub mod http;
pub mod metrics;
pub mod tables;
pub mod xds;
