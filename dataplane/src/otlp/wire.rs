//! Fields of OTLP's messages, written straight into a buffer. What each span has for itself is made for every connection: building a
//! message in memory, and asking each of its parts for its length again at every level, would cost more than all the rest of the span.
//!
//! Encoding: <https://protobuf.dev/programming-guides/encoding/>. Fields: `opentelemetry/proto/trace/v1/trace.proto` and
//! `common/v1/common.proto` of <https://github.com/open-telemetry/opentelemetry-proto>.

use prost::{encode_length_delimiter, length_delimiter_len};

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;
const FIXED32: u32 = 5;

/// Fields of `KeyValue` and `AnyValue`.
const KEY: u32 = 1;
const VALUE: u32 = 2;
const STRING_VALUE: u32 = 1;
const INT_VALUE: u32 = 3;

/// Fields of `Span.Event`.
const TIME_UNIX_NANO: u32 = 1;
const NAME: u32 = 2;
const EVENT_ATTRIBUTES: u32 = 3;

/// A `KeyValue`.
#[derive(Clone, Copy)]
pub(super) enum Attribute<'a> {
    Number(&'a str, u64),
    Text(&'a str, &'a str),
}

/// A number as protobuf's varint.
fn varint(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn varint_len(value: u64) -> usize {
    // Seven bits a byte, and a byte for zero.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Number and wire type of a field.
fn tag(field: u32, wire_type: u32, into: &mut Vec<u8>) {
    varint((field << 3 | wire_type).into(), into);
}

fn tag_len(field: u32) -> usize {
    varint_len((field << 3).into())
}

/// Begins a field of `length` bytes.
pub(super) fn open(field: u32, length: usize, into: &mut Vec<u8>) {
    tag(field, LENGTH_DELIMITED, into);
    // There is always room in a vector.
    let _ = encode_length_delimiter(length, into);
}

/// What a field of `length` bytes takes with its head.
fn whole_len(field: u32, length: usize) -> usize {
    tag_len(field) + length_delimiter_len(length) + length
}

/// Bytes or text; nothing, if there are none.
pub(super) fn bytes(field: u32, value: &[u8], into: &mut Vec<u8>) {
    if !value.is_empty() {
        open(field, value.len(), into);
        into.extend_from_slice(value);
    }
}

pub(super) fn fixed64(field: u32, value: u64, into: &mut Vec<u8>) {
    tag(field, FIXED64, into);
    into.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn fixed32(field: u32, value: u32, into: &mut Vec<u8>) {
    tag(field, FIXED32, into);
    into.extend_from_slice(&value.to_le_bytes());
}

/// An attribute as a `field` of whatever has attributes.
pub(super) fn attribute(field: u32, attribute: Attribute<'_>, into: &mut Vec<u8>) {
    open(field, attribute.len(), into);
    let value = attribute.value_len();
    match attribute {
        Attribute::Number(key, number) => {
            bytes(KEY, key.as_bytes(), into);
            open(VALUE, value, into);
            tag(INT_VALUE, VARINT, into);
            varint(of_int64(number), into);
        }
        Attribute::Text(key, text) => {
            bytes(KEY, key.as_bytes(), into);
            open(VALUE, value, into);
            open(STRING_VALUE, text.len(), into);
            into.extend_from_slice(text.as_bytes());
        }
    }
}

/// A `Span.Event` as a `field` of a span.
pub(super) fn moment(
    field: u32,
    time_unix_nano: u64,
    name: &str,
    attributes: &[Attribute<'_>],
    into: &mut Vec<u8>,
) {
    let own = tag_len(TIME_UNIX_NANO) + 8 + whole_len(NAME, name.len());
    let lengths = attributes
        .iter()
        .map(|a| whole_len(EVENT_ATTRIBUTES, a.len()));
    open(field, own + lengths.sum::<usize>(), into);
    fixed64(TIME_UNIX_NANO, time_unix_nano, into);
    bytes(NAME, name.as_bytes(), into);
    for one in attributes {
        attribute(EVENT_ATTRIBUTES, *one, into);
    }
}

impl Attribute<'_> {
    fn value_len(&self) -> usize {
        match self {
            Self::Number(_, number) => tag_len(INT_VALUE) + varint_len(of_int64(*number)),
            Self::Text(_, text) => whole_len(STRING_VALUE, text.len()),
        }
    }

    fn len(&self) -> usize {
        let (Self::Number(key, _) | Self::Text(key, _)) = self;
        whole_len(KEY, key.len()) + whole_len(VALUE, self.value_len())
    }
}

/// `AnyValue` has signed numbers only.
fn of_int64(value: u64) -> u64 {
    value.min(i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
    use opentelemetry_proto::tonic::trace::v1::Span;
    use opentelemetry_proto::tonic::trace::v1::span::Event as Moment;
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    fn read(attribute: Attribute<'_>) -> KeyValue {
        let (key, value) = match attribute {
            Attribute::Number(key, n) => {
                (key, Value::IntValue(i64::try_from(n).unwrap_or(i64::MAX)))
            }
            Attribute::Text(key, text) => (key, Value::StringValue(text.to_owned())),
        };
        KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
            ..Default::default()
        }
    }

    proptest! {
        #[test]
        fn others_read_what_was_written(
            id in proptest::collection::vec(any::<u8>(), 0..300),
            (time, flags, number) in any::<(u64, u32, u64)>(),
            (key, text) in ("[a-z.]{1,200}", ".{0,200}"),
        ) {
            let attributes = [Attribute::Number(&key, number), Attribute::Text(&key, &text)];
            let mut written = Vec::new();
            bytes(1, &id, &mut written);
            fixed64(7, time, &mut written);
            for one in attributes {
                attribute(9, one, &mut written);
            }
            moment(11, time, &key, &attributes, &mut written);
            moment(11, time, &key, &[], &mut written);
            fixed32(16, flags, &mut written);
            let span = Span::decode(written.as_slice()).expect("a span");
            let attributes: Vec<_> = attributes.into_iter().map(read).collect();
            let moment = |attributes| Moment {
                time_unix_nano: time,
                name: key.clone(),
                attributes,
                ..Default::default()
            };
            prop_assert_eq!(span, Span {
                trace_id: id,
                start_time_unix_nano: time,
                attributes: attributes.clone(),
                events: vec![moment(attributes), moment(Vec::new())],
                flags,
                ..Default::default()
            });
        }
    }
}
