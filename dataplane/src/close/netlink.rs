//! `SOCK_DESTROY` over `NETLINK_SOCK_DIAG`, for kernels without `bpf_sock_destroy`.
//!
//! See sock_diag(7) and linux/inet_diag.h. Needs `CONFIG_INET_DIAG_DESTROY`, and the modules tcp_diag and udp_diag, which the
//! kernel loads by itself.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use weft_proto::model::Protocol;

use super::ClosingSocket;

const SOCK_DESTROY: u16 = 21;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const HEADER: usize = 16;
/// `struct inet_diag_req_v2`
const REQUEST: usize = 56;
const AF_INET: u16 = 2;

/// Destroys these sockets of the caller's network namespace. One that is gone meanwhile is no error.
pub(super) fn destroy(sockets: &[&ClosingSocket]) -> io::Result<()> {
    let netlink = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    let mut failure = None;
    for socket in sockets {
        send(&netlink, &request(socket), SendFlags::empty())?;
        let mut answer = [0; 512];
        let (length, _) = recv(&netlink, &mut answer, RecvFlags::empty())?;
        if let Err(e) = result(answer.get(..length).unwrap_or_default()) {
            failure = Some(e);
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Asks for a socket that cannot be: "no such socket" shows that the kernel can destroy sockets at all.
pub(crate) fn probe() -> io::Result<()> {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    destroy(&[&ClosingSocket {
        local: nowhere,
        remote: nowhere,
        family: AF_INET,
        protocol: Protocol::Tcp.number().into(),
        netns: 0,
    }])
}

fn request(socket: &ClosingSocket) -> Vec<u8> {
    let mut m = Vec::with_capacity(HEADER + REQUEST);
    // struct nlmsghdr
    m.extend(((HEADER + REQUEST) as u32).to_ne_bytes());
    m.extend(SOCK_DESTROY.to_ne_bytes());
    m.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    m.extend([0; 8]); // sequence, port id
    // struct inet_diag_req_v2: family, protocol, extensions, padding, states (all)
    m.extend([socket.family as u8, socket.protocol as u8, 0, 0]);
    m.extend(u32::MAX.to_ne_bytes());
    // struct inet_diag_sockid: ports, addresses, interface (any), cookie (any)
    m.extend(socket.local.port().to_be_bytes());
    m.extend(socket.remote.port().to_be_bytes());
    m.extend(address(socket.local, socket.family));
    m.extend(address(socket.remote, socket.family));
    m.extend([0; 4]);
    m.extend([0xff; 8]);
    m
}

/// 16 bytes: an IPv4 socket's address in the first four, an IPv6 socket's in all, IPv4 peers v4-mapped.
fn address(endpoint: SocketAddr, family: u16) -> [u8; 16] {
    match endpoint.ip() {
        IpAddr::V4(v4) if family == AF_INET => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            bytes
        }
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The errno of an `NLMSG_ERROR`; 0 is the acknowledgement.
fn result(answer: &[u8]) -> io::Result<()> {
    let field = |at: usize, size: usize| answer.get(at..at + size);
    let kind = field(4, 2)
        .and_then(|b| b.try_into().ok())
        .map(u16::from_ne_bytes);
    let errno = field(HEADER, 4)
        .and_then(|b| b.try_into().ok())
        .map(i32::from_ne_bytes);
    match (kind, errno) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(errno)) if Errno::from_raw_os_error(-errno) == Errno::NOENT => {
            Ok(())
        }
        (Some(NLMSG_ERROR), Some(errno)) => Err(io::Error::from_raw_os_error(-errno)),
        _ => Err(io::Error::other("no acknowledgement from sock_diag")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(local: &str, remote: &str, family: u16) -> ClosingSocket {
        ClosingSocket {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            family,
            protocol: 6,
            netns: 0,
        }
    }

    #[test]
    fn request_has_the_kernels_layout() {
        let m = request(&socket("10.0.0.1:4660", "10.0.0.2:80", 2));
        assert_eq!(m.len(), 72);
        assert_eq!(m[16..18], [2, 6]);
        assert_eq!(m[24..28], [0x12, 0x34, 0, 80], "ports in network order");
        assert_eq!(m[28..32], [10, 0, 0, 1]);
        assert_eq!(m[44..48], [10, 0, 0, 2]);
        assert_eq!(m[64..], [0xff; 8], "no cookie");
    }

    #[test]
    fn ipv4_peers_of_ipv6_sockets_are_mapped() {
        let m = request(&socket("10.0.0.1:1", "10.0.0.2:2", 10));
        assert_eq!(
            m[28..44],
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]
        );
    }

    #[test]
    fn answers() {
        let error = |errno: i32| {
            let mut m = vec![0; 36];
            m[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
            m[16..20].copy_from_slice(&(-errno).to_ne_bytes());
            result(&m)
        };
        assert!(error(0).is_ok());
        assert!(error(2).is_ok(), "gone already");
        assert_eq!(error(1).unwrap_err().raw_os_error(), Some(1));
        assert!(result(&[]).is_err());
    }
}
