//! Whether packets of this node are to be encrypted on their way (IPsec). Only the node's stack does that.

use std::io;

use netlink_packet_core::{
    DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::protocols::NETLINK_XFRM;
use rustix::io::Errno;

use crate::netlink::Client;

/// `XFRM_MSG_GETPOLICY` of linux/xfrm.h, and the size of the `struct xfrm_userpolicy_id` that goes with it.
const GET_POLICY: u16 = 0x15;
const POLICY_ID: usize = 64;

/// A question for all policies, and an answer, of which it only matters that there is one.
#[derive(Clone, Copy, Debug)]
struct Policy;

impl NetlinkSerializable for Policy {
    fn message_type(&self) -> u16 {
        GET_POLICY
    }

    fn buffer_len(&self) -> usize {
        POLICY_ID
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.fill(0);
    }
}

impl NetlinkDeserializable for Policy {
    type Error = DecodeError;

    fn deserialize(_: &NetlinkHeader, _: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

impl From<Policy> for NetlinkPayload<Policy> {
    fn from(policy: Policy) -> Self {
        Self::InnerMessage(policy)
    }
}

/// Whether this network namespace has any policy. A kernel without IPsec has none.
pub(super) fn has_policies() -> io::Result<bool> {
    let mut client = match Client::<Policy>::open(NETLINK_XFRM) {
        Err(e) if e.raw_os_error() == Some(Errno::PROTONOSUPPORT.raw_os_error()) => {
            return Ok(false);
        }
        client => client?,
    };
    Ok(!client.dump(&Policy)?.is_empty())
}
