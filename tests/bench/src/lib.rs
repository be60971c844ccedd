//! Benchmarks against kube-proxy and against no mesh.
//!
//! `weft-bench run` makes a lab of network namespaces with a site for each peer,
//! drives the same load through all of them in turns, and writes tables and plots.
//! `weft-bench scale` measures what a large cluster costs the control plane.
//! `weft-bench policies` measures what a change of policy costs the agent.
//! `weft-bench sidecars` compares requests through Weft with those through a pair of sidecars.
//! `weft-bench accel` compares connections within a node with and without acceleration.
//! See `docs/bench/README.md` for what is measured and how.
#![forbid(unsafe_code)]

pub mod accel;
pub mod case;
pub mod interrupt;
pub mod kubernetes;
pub mod load;
pub mod machine;
pub mod objects;
pub mod peer;
pub mod plan;
pub mod pods;
pub mod policies;
pub mod report;
pub mod results;
pub mod run;
pub mod scale;
pub mod sidecars;
pub mod site;
pub mod stage;
pub mod stats;
pub mod traced;
pub mod usage;
