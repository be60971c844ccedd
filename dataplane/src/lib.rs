//! Node agent: compiles xDS into eBPF maps.
#![deny(unsafe_code)]

pub mod accel;
pub mod admin;
pub mod agent;
pub mod bpf;
pub mod check;
pub mod close;
pub mod compile;
pub mod conntrack;
pub mod datapath;
pub mod doctor;
pub mod engine;
pub mod flow;
pub mod health_checks;
pub mod http;
pub mod identity;
pub mod interfaces;
pub mod limits;
pub mod metrics;
pub mod mtls;
mod netlink;
mod netns;
pub mod otlp;
pub mod outsiders;
pub mod policy;
pub mod proxy;
pub mod routing;
pub mod tables;
pub mod uplinks;
pub mod xds;
