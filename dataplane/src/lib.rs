//! Node agent: compiles xDS into eBPF maps.

pub mod tables;
