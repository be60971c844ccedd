//! Messages of nf_tables (`linux/netfilter/nf_tables.h`), as far as rules and chains are read here.

use netlink_packet_core::{
    DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkPayload, NetlinkSerializable,
    NlasIterator,
};

/// `NFNL_SUBSYS_NFTABLES` of linux/netfilter/nfnetlink.h, where message types have it.
const SUBSYSTEM: u16 = 10 << 8;
/// `struct nfgenmsg`: family, version, and a number that is zero here.
const HEADER: usize = 4;
/// Length and type of an attribute.
const ATTRIBUTE_HEADER: usize = 4;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Query {
    /// `NFT_MSG_GETGEN`: the number of the rules' latest change.
    Generation,
    /// `NFT_MSG_GETCHAIN`.
    Chains,
    /// `NFT_MSG_GETRULE`.
    Rules,
}

/// A request, or an answer to one.
#[derive(Clone, Debug)]
pub(super) struct Message {
    kind: u16,
    pub(super) family: u8,
    attributes: Vec<u8>,
}

impl Message {
    /// About all families and tables.
    pub(super) fn new(query: Query) -> Self {
        let kind = match query {
            Query::Chains => 4,
            Query::Rules => 7,
            Query::Generation => 16,
        };
        Self {
            kind: SUBSYSTEM | kind,
            family: 0,
            attributes: Vec::new(),
        }
    }

    /// The attribute of this type.
    pub(super) fn attribute(&self, kind: u16) -> Option<&[u8]> {
        attribute(&self.attributes, kind)
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        HEADER + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let header = [self.family, 0, 0, 0];
        let bytes = header.iter().chain(&self.attributes);
        for (to, from) in buffer.iter_mut().zip(bytes) {
            *to = *from;
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let (own, attributes) = payload
            .split_at_checked(HEADER)
            .ok_or_else(|| DecodeError::from("shorter than its header"))?;
        Ok(Self {
            kind: header.message_type,
            family: own.first().copied().unwrap_or_default(),
            attributes: attributes.to_vec(),
        })
    }
}

impl From<Message> for NetlinkPayload<Message> {
    fn from(message: Message) -> Self {
        Self::InnerMessage(message)
    }
}

/// Types and values of these attributes, up to the first that is cut off.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(|attribute| {
        let attribute = attribute.ok()?;
        let (kind, length) = (attribute.kind(), attribute.value_length());
        let value = attribute.into_inner().get(ATTRIBUTE_HEADER..)?;
        Some((kind, value.get(..length)?))
    })
}

/// The attribute of this type.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(found, value)| (found == kind).then_some(value))
}

/// A text that ends with zero.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let bytes = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// A number in network byte order, as nf_tables has them.
pub(super) fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().copied().map(u32::from_be_bytes)
}
