//! Requests to the kernel over netlink, one after another, in the network namespace of the thread that opens the socket.

use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkDeserializable, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};

/// A dump during which something changed is begun again, at most so often; after that it is taken as it is.
const DUMP_ATTEMPTS: usize = 4;

/// A socket for requests of one protocol, whose answers are `T`s.
pub(crate) struct Client<T> {
    socket: Socket,
    sequence: u32,
    answers: PhantomData<fn() -> T>,
}

impl<T: NetlinkDeserializable + Debug> Client<T> {
    /// Opens a socket of this netlink protocol.
    pub(crate) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self {
            socket,
            sequence: 0,
            answers: PhantomData,
        })
    }

    /// Everything that matches.
    pub(crate) fn dump<Q: NetlinkSerializable + Clone>(&mut self, query: &Q) -> io::Result<Vec<T>>
    where
        NetlinkPayload<Q>: From<Q>,
    {
        for _ in 1..DUMP_ATTEMPTS {
            let (answers, whole) = self.exchange(query.clone(), NLM_F_DUMP)?;
            if whole {
                return Ok(answers);
            }
        }
        Ok(self.exchange(query.clone(), NLM_F_DUMP)?.0)
    }

    /// Asks for one thing, or for a change. `flags` beyond those of every request.
    pub(crate) fn request<Q: NetlinkSerializable>(
        &mut self,
        query: Q,
        flags: u16,
    ) -> io::Result<Option<T>>
    where
        NetlinkPayload<Q>: From<Q>,
    {
        // Always acknowledged, so that the end of the answer is known.
        let (answers, _) = self.exchange(query, flags | NLM_F_ACK)?;
        Ok(answers.into_iter().next())
    }

    /// The answers, and whether nothing changed while they were collected.
    fn exchange<Q: NetlinkSerializable>(
        &mut self,
        query: Q,
        flags: u16,
    ) -> io::Result<(Vec<T>, bool)>
    where
        NetlinkPayload<Q>: From<Q>,
    {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(query);
        message.header.flags = flags | NLM_F_REQUEST;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        let (mut answers, mut whole) = (Vec::new(), true);
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            for message in messages::<T>(&datagram) {
                // What an exchange that failed has left unread.
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                whole &= message.header.flags & NLM_F_DUMP_INTR == 0;
                match message.payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    NetlinkPayload::Done(_) => return Ok((answers, whole)),
                    NetlinkPayload::Error(error) if error.code.is_none() => {
                        return Ok((answers, whole));
                    }
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    _ => {}
                }
            }
        }
    }
}

/// The messages of a datagram. One that cannot be decoded (a kind of interface that the library does not know well) is passed over.
pub(crate) fn messages<T: NetlinkDeserializable + Debug>(
    datagram: &[u8],
) -> impl Iterator<Item = NetlinkMessage<T>> + '_ {
    Split(datagram).filter_map(|bytes| match NetlinkMessage::deserialize(bytes) {
        Ok(message) => Some(message),
        Err(e) => {
            tracing::debug!("netlink message passed over: {e}");
            None
        }
    })
}

/// Cuts a datagram into messages by the length that each begins with.
struct Split<'a>(&'a [u8]);

impl<'a> Iterator for Split<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        const HEADER: usize = 16;
        let length = u32::from_ne_bytes(self.0.first_chunk().copied()?);
        let length = usize::try_from(length).ok()?;
        if length < HEADER {
            return None;
        }
        let message = self.0.get(..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::Split;

    #[test]
    fn cuts_messages_by_their_length() {
        let message = |length: u32, size: usize| {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.resize(size, 0);
            bytes
        };
        let two = [message(18, 20), message(16, 16)].concat();
        let lengths: Vec<usize> = Split(&two).map(<[u8]>::len).collect();
        assert_eq!(lengths, [18, 16]);
        // Lengths that cannot be end it: nothing after them can be trusted.
        for bad in [message(0, 20), message(15, 20), message(64, 20), vec![1, 2]] {
            assert_eq!(Split(&bad).count(), 0);
        }
    }
}
