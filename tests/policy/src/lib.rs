//! Proof that the kernel decides as the specifications of the policy kinds say.
//!
//! * [`object`] has the Kubernetes objects in the form in which they are written;
//! * [`evaluate`] answers from them, and from nothing of Weft's, whether a connection is let through;
//! * [`generate`] makes clusters, policies, changes to them, and connections at their boundaries, all from a seed;
//! * [`packet`] writes and reads what goes over the wire;
//! * [`hostile`] has frames that are wrong;
//! * [`node`] is the real thing: control plane, wire, policy engine, maps and programs;
//! * [`envoy`] is the real Envoy with the rules that the control plane makes of policies about requests;
//! * [`compare`] sets it beside the evaluator;
//! * [`scenario`] puts a cluster's steps together, and [`shrink`] takes away what does not matter of a failing one.
#![forbid(unsafe_code)]

pub mod compare;
pub mod connection;
pub mod envoy;
pub mod evaluate;
pub mod generate;
pub mod hostile;
pub mod node;
pub mod object;
pub mod packet;
pub mod scenario;
pub mod shrink;
pub mod yaml;
