//! From names to packets, and each packet to the kernel.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use weft_proto::wire::admin::v1 as wire;

use super::question::{Place, Question, in_family, is_icmp};
use super::reply::{Case, reply};
use super::{CheckProgram, Directory, Packet, ServicePort};
use crate::flow::protocol;

/// Linux gives clients ports from here on.
const CLIENT_PORT: u16 = 32_768;

/// A question without an answer.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// No pod of this name.
    #[error("there is no pod {0}: `weft workloads` lists them")]
    NoPod(String),
    /// No pod or service of this name.
    #[error("there is neither a pod nor a service {0}: see `weft workloads` and `weft services`")]
    Nothing(String),
    /// The service has other ports.
    #[error("service {service} has no port {wanted}: it has {ports}")]
    NoPort {
        /// "namespace/name"
        service: String,
        /// What was asked for.
        wanted: String,
        /// What there is.
        ports: String,
    },
    /// Nobody says which port is meant.
    #[error(
        "no service sends anything to {0}: give a port, as in {0}:8080 or {0}:53/udp, or {0}/icmp"
    )]
    WhichPort(String),
    /// An IPv4 address and an IPv6 address.
    #[error("{0} and {1} have no addresses of the same family")]
    Families(String, String),
    /// A pod without addresses.
    #[error("{0} has no address yet")]
    NoAddress(String),
    /// The kernel.
    #[error("the kernel does not answer: {0}: see `weft doctor`")]
    Kernel(#[from] io::Error),
}

/// Destinations that are reached in one way.
struct Target {
    service: String,
    protocol: u8,
    destinations: Vec<SocketAddr>,
    by_proxy: bool,
}

/// Asks the kernel.
///
/// # Errors
/// When the question names what is not there, or the kernel refuses.
pub fn check(
    question: &Question,
    directory: &dyn Directory,
    program: &dyn CheckProgram,
) -> Result<wire::CheckReply, CheckError> {
    let sources = sources(&question.from, directory)?;
    let targets = targets(question, directory)?;
    let mut cases = Vec::new();
    // Nobody hands over what a pod sends that is out of the mesh.
    let out = sources
        .iter()
        .any(|source| directory.workload(*source).is_some_and(|w| w.out_of_mesh));
    let (by_proxy, targets): (Vec<_>, Vec<_>) =
        targets.into_iter().partition(|t| t.by_proxy && !out);
    for target in &targets {
        let mut asked = false;
        for packet in packets(&sources, target) {
            asked = true;
            cases.push(Case {
                packet,
                service: &target.service,
                judged: program.check(&packet)?,
            });
        }
        if !asked && !target.destinations.is_empty() {
            return Err(CheckError::Families(
                text(&question.from),
                text(&question.to),
            ));
        }
    }
    let empty: Vec<&str> = targets
        .iter()
        .filter(|target| target.destinations.is_empty())
        .map(|target| target.service.as_str())
        .collect();
    let by_proxy: Vec<&str> = by_proxy.iter().map(|t| t.service.as_str()).collect();
    Ok(reply(&cases, &empty, &by_proxy, directory))
}

fn packets<'a>(sources: &'a [IpAddr], target: &'a Target) -> impl Iterator<Item = Packet> + 'a {
    target.destinations.iter().filter_map(|destination| {
        let source = sources
            .iter()
            .find(|source| source.is_ipv4() == destination.is_ipv4())?;
        let port = if has_ports(target.protocol) {
            CLIENT_PORT
        } else {
            0
        };
        Some(Packet {
            source: SocketAddr::new(*source, port),
            destination: *destination,
            protocol: in_family(target.protocol, destination),
        })
    })
}

fn sources(from: &Place, directory: &dyn Directory) -> Result<Vec<IpAddr>, CheckError> {
    match from {
        Place::Address(address) => Ok(vec![*address]),
        Place::Name { namespace, name } => pod(namespace, name, directory)?
            .ok_or_else(|| CheckError::NoPod(format!("{namespace}/{name}"))),
    }
}

fn targets(question: &Question, directory: &dyn Directory) -> Result<Vec<Target>, CheckError> {
    match &question.to {
        Place::Address(address) => {
            let ports = directory.service_ports_at(*address);
            if ports.is_empty() {
                direct(question, vec![*address], directory)
            } else {
                service(question, ports, |backend| {
                    backend.is_ipv4() == address.is_ipv4()
                })
            }
        }
        Place::Name { namespace, name } => {
            if let Some(addresses) = pod(namespace, name, directory)? {
                return direct(question, addresses, directory);
            }
            let ports = directory.service_ports(namespace, name);
            if ports.is_empty() {
                return Err(CheckError::Nothing(format!("{namespace}/{name}")));
            }
            service(question, ports, |_| true)
        }
    }
}

/// Addresses of a pod, if there is one of this name.
fn pod(
    namespace: &str,
    name: &str,
    directory: &dyn Directory,
) -> Result<Option<Vec<IpAddr>>, CheckError> {
    match directory.pod(namespace, name) {
        None => Ok(None),
        Some(pod) if pod.addresses.is_empty() => {
            Err(CheckError::NoAddress(format!("{namespace}/{name}")))
        }
        Some(pod) => Ok(Some(pod.addresses.clone())),
    }
}

fn direct(
    question: &Question,
    addresses: Vec<IpAddr>,
    directory: &dyn Directory,
) -> Result<Vec<Target>, CheckError> {
    let wanted = question.protocol.unwrap_or(protocol::TCP);
    let ports: BTreeSet<(u16, u8)> = match question.port {
        Some(port) => [(port, wanted)].into(),
        None if is_icmp(wanted) => [(0, wanted)].into(),
        None => directory
            .ports_behind(&addresses)
            .into_iter()
            .filter(|(_, p)| question.protocol.is_none_or(|wanted| wanted == *p))
            .collect(),
    };
    if ports.is_empty() {
        return Err(CheckError::WhichPort(text(&question.to)));
    }
    let target = |(port, protocol)| Target {
        service: String::new(),
        protocol,
        destinations: addresses
            .iter()
            .map(|address| SocketAddr::new(*address, port))
            .collect(),
        by_proxy: false,
    };
    Ok(ports.into_iter().map(target).collect())
}

fn service(
    question: &Question,
    ports: Vec<ServicePort>,
    of_family: impl Fn(&SocketAddr) -> bool,
) -> Result<Vec<Target>, CheckError> {
    let wanted = |found: &ServicePort| {
        question.port.is_none_or(|port| port == found.port)
            && question.protocol.is_none_or(|p| p == found.protocol)
    };
    let targets: Vec<Target> = ports
        .iter()
        .filter(|port| wanted(port))
        .map(|port| Target {
            service: port.service.clone(),
            protocol: port.protocol,
            destinations: port.backends.iter().copied().filter(&of_family).collect(),
            by_proxy: port.by_proxy,
        })
        .collect();
    match ports.first() {
        Some(first) if targets.is_empty() => Err(CheckError::NoPort {
            service: first.service.clone(),
            wanted: wanted_port(question),
            ports: ports.iter().map(port_text).collect::<Vec<_>>().join(", "),
        }),
        _ => Ok(targets),
    }
}

fn port_text(port: &ServicePort) -> String {
    format!("{}/{}", port.port, protocol::word(port.protocol))
}

fn wanted_port(question: &Question) -> String {
    let port = question
        .port
        .map_or_else(|| "any".into(), |p| p.to_string());
    match question.protocol {
        Some(protocol) => format!("{port}/{}", protocol::word(protocol)),
        None => port,
    }
}

const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP)
}

fn text(place: &Place) -> String {
    match place {
        Place::Address(address) => address.to_string(),
        Place::Name { namespace, name } => format!("{namespace}/{name}"),
    }
}
