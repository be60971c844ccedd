//! What the kernel tells of changes, as far as it calls for another look.

use std::io;

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket, AsyncSocketExt, TokioSocket};

use crate::netlink::messages;

/// `RTNLGRP_*` of linux/rtnetlink.h. Forwarding entries of bridges come with the neighbours.
const GROUPS: [u32; 6] = [
    1,  // LINK
    3,  // NEIGH
    5,  // IPV4_IFADDR
    7,  // IPV4_ROUTE
    9,  // IPV6_IFADDR
    11, // IPV6_ROUTE
];
/// Room for a burst; a larger one is noticed as lost.
const BUFFER: usize = 1 << 20;
const ENOBUFS: i32 = 105;

/// How much has to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Notice {
    /// A neighbour came up: something that was missing may be there.
    Missing,
    /// What was found may be elsewhere now, or gone.
    All,
}

/// A subscription to changes in the agent's network namespace.
pub(super) struct Notices {
    socket: TokioSocket,
}

impl Notices {
    pub(super) fn subscribe() -> io::Result<Self> {
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        socket.socket_mut().bind_auto()?;
        socket.socket_ref().set_rx_buf_sz(BUFFER)?;
        for group in GROUPS {
            socket.socket_mut().add_membership(group)?;
        }
        Ok(Self { socket })
    }

    /// Waits for the next change that matters.
    pub(super) async fn next(&mut self) -> io::Result<Notice> {
        loop {
            let notice = match self.socket.recv_from_full().await {
                Ok((datagram, _)) => messages::<RouteNetlinkMessage>(&datagram)
                    .filter_map(|message| match message.payload {
                        NetlinkPayload::InnerMessage(message) => judge(&message),
                        _ => None,
                    })
                    .max(),
                // Told too much at once: anything may have changed.
                Err(e) if e.raw_os_error() == Some(ENOBUFS) => Some(Notice::All),
                Err(e) => return Err(e),
            };
            if let Some(notice) = notice {
                return Ok(notice);
            }
        }
    }
}

fn judge(message: &RouteNetlinkMessage) -> Option<Notice> {
    match message {
        RouteNetlinkMessage::NewLink(_)
        | RouteNetlinkMessage::DelLink(_)
        | RouteNetlinkMessage::NewAddress(_)
        | RouteNetlinkMessage::DelAddress(_) => Some(Notice::All),
        // A network's routes come and go by the thousand with a routing daemon, and say nothing about pods that were found.
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
            match route.header.destination_prefix_length {
                32 | 128 => Some(Notice::All),
                _ => Some(Notice::Missing),
            }
        }
        RouteNetlinkMessage::NewNeighbour(_) => Some(Notice::Missing),
        _ => None,
    }
}
