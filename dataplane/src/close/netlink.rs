//! `SOCK_DESTROY` over `NETLINK_SOCK_DIAG`, for kernels without `bpf_sock_destroy`.
//!
//! See sock_diag(7). Needs `CONFIG_INET_DIAG_DESTROY`, and the modules tcp_diag and udp_diag, which the kernel loads by itself.
//!
//! A request by addresses alone falls back to whatever socket would get a packet between them: the listener, or a UDP socket that serves
//! everybody. So sockets are listed first, and destroyed by the cookie that each has for its whole life.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::net::SocketAddr;

use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_packet_sock_diag::{SockDiagDestroy, SockDiagMessage};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;

use super::ClosingSocket;
use crate::netlink::Client;

/// Destroys these sockets of the caller's network namespace. One that is gone is no error.
pub(super) fn destroy(sockets: &[&ClosingSocket]) -> io::Result<()> {
    let wanted: HashSet<(u8, SocketAddr, SocketAddr)> = sockets
        .iter()
        .map(|s| (s.protocol, s.local, s.remote))
        .collect();
    let protocols: BTreeSet<u8> = sockets.iter().map(|s| s.protocol).collect();
    let mut client = Client::<SockDiagMessage>::open(NETLINK_SOCK_DIAG)?;
    let mut failure = None;
    for protocol in protocols {
        // Connections over IPv4 may have either kind of socket.
        for family in [AF_INET, AF_INET6] {
            let query = SockDiagMessage::InetRequest(request(family, protocol, any(family)));
            for id in client.dump(&query)?.into_iter().filter_map(socket_id) {
                let (local, remote) = ends(&id);
                if wanted.contains(&(protocol, local, remote))
                    && let Err(e) = destroy_one(&mut client, request(family, protocol, id))
                {
                    failure = Some(e);
                }
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Asks for a socket that cannot be: "no such socket" shows that the kernel can destroy sockets at all.
pub(crate) fn probe() -> io::Result<()> {
    let mut client = Client::open(NETLINK_SOCK_DIAG)?;
    let nowhere = SocketId {
        cookie: [1; 8],
        ..any(AF_INET)
    };
    destroy_one(&mut client, request(AF_INET, IPPROTO_TCP, nowhere))
}

fn destroy_one(client: &mut Client<SockDiagMessage>, request: InetRequest) -> io::Result<()> {
    let query = SockDiagDestroy::new(SockDiagMessage::InetRequest(request));
    match client.request(query, 0) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn request(family: u8, protocol: u8, socket_id: SocketId) -> InetRequest {
    InetRequest {
        family,
        protocol,
        extensions: ExtensionFlags::empty(),
        // What has a peer. A UDP socket is closed, or established when connected.
        states: StateFlags::all() - StateFlags::LISTEN - StateFlags::CLOSE - StateFlags::TIME_WAIT,
        socket_id,
    }
}

fn any(family: u8) -> SocketId {
    if family == AF_INET {
        SocketId::new_v4()
    } else {
        SocketId::new_v6()
    }
}

fn socket_id(answer: SockDiagMessage) -> Option<SocketId> {
    match answer {
        SockDiagMessage::InetResponse(found) => Some(found.header.socket_id),
        _ => None,
    }
}

fn ends(id: &SocketId) -> (SocketAddr, SocketAddr) {
    let local = id.source_address.to_canonical();
    let remote = id.destination_address.to_canonical();
    (
        SocketAddr::new(local, id.source_port),
        SocketAddr::new(remote, id.destination_port),
    )
}
