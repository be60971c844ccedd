//! `weft check`: what would happen to the first packet of a connection, and who says so.
//!
//! The answer comes from the loaded programs and the maps that decide packets ([`CheckProgram`]); only the names are the agent's.
//! Each end is judged on its own node: what this one cannot know it says, and where to ask.

mod ask;
mod question;
mod reply;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};

use weft_proto::model::Workload;

pub use ask::{CheckError, check};
pub use question::{Question, QuestionError};

use crate::flow::{Names, Reason};

/// A packet that opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Who opens it.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
    /// `IPPROTO_*`.
    pub protocol: u8,
}

/// What the policies of one end say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Judgement {
    /// Whether it passes.
    pub allowed: bool,
    /// It passes to the node's Envoy, which judges each request.
    pub by_proxy: bool,
    /// Why.
    pub reason: Reason,
    /// Id of the rule that decides; 0: none does.
    pub rule: u32,
    /// Id of an audited rule that would refuse; 0: none.
    pub audit: u32,
}

/// What the kernel says about a [`Packet`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Identity of the source.
    pub source_identity: u32,
    /// Identity of the destination.
    pub destination_identity: u32,
    /// By the source's policies; `None`: they are not on this node.
    pub egress: Option<Judgement>,
    /// By the destination's policies; `None`: they are not on this node.
    pub ingress: Option<Judgement>,
}

/// The kernel's `weft_check`.
pub trait CheckProgram: Send + Sync {
    /// Judges a packet. Changes nothing in the kernel.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn check(&self, packet: &Packet) -> io::Result<Judged>;
}

/// A port of a service and what is behind it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// "namespace/name"
    pub service: String,
    /// As clients connect to it.
    pub port: u16,
    /// `IPPROTO_*`.
    pub protocol: u8,
    /// What new connections from this node can land on.
    pub backends: Vec<SocketAddr>,
    /// Pods reach it through Envoy, whose routes choose the backend.
    pub by_proxy: bool,
}

/// What the agent knows about places.
pub trait Directory: Names {
    /// Name of this node.
    fn node(&self) -> &str;

    /// The pod of this name.
    fn pod(&self, namespace: &str, name: &str) -> Option<&Workload>;

    /// Ports of the service of this name.
    fn service_ports(&self, namespace: &str, name: &str) -> Vec<ServicePort>;

    /// Ports of the service that has this address.
    fn service_ports_at(&self, address: IpAddr) -> Vec<ServicePort>;

    /// Ports and protocols that services send to these addresses.
    fn ports_behind(&self, addresses: &[IpAddr]) -> Vec<(u16, u8)>;
}
