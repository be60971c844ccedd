//! gRPC for messages that are encoded already.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::BufMut;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::parts::Parts;

/// Encoded messages go, `A`s come.
#[derive(Debug)]
pub(super) struct Encoded<A>(PhantomData<fn() -> A>);

impl<A> Default for Encoded<A> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<A: Message + Default + 'static> Codec for Encoded<A> {
    type Encode = Parts;
    type Decode = A;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<A> Encoder for Encoded<A> {
    type Item = Parts;
    type Error = Status;

    fn encode(&mut self, message: Parts, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.reserve(message.len());
        for part in message {
            into.put(part);
        }
        Ok(())
    }
}

impl<A: Message + Default> Decoder for Encoded<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        let message = A::decode(from).map_err(|e| Status::internal(e.to_string()))?;
        Ok(Some(message))
    }
}
