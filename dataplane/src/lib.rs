//! Node agent: compiles xDS into eBPF maps.
