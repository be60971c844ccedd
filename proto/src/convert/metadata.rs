//! What Envoy's messages have no field for travels in `metadata.filter_metadata["weft"]`.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3::Metadata;
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};

const NAMESPACE: &str = "weft";

/// Metadata with these entries; `None` when there are none.
pub(super) fn encode<'a>(
    entries: impl IntoIterator<Item = (&'a str, Option<Kind>)>,
) -> Option<Metadata> {
    let fields: HashMap<String, Value> = entries
        .into_iter()
        .filter_map(|(name, kind)| kind.map(|k| (name.to_owned(), Value { kind: Some(k) })))
        .collect();
    (!fields.is_empty()).then(|| Metadata {
        filter_metadata: HashMap::from([(NAMESPACE.to_owned(), Struct { fields })]),
        ..Default::default()
    })
}

/// The entry of this name, of whatever kind.
pub(super) fn field<'a>(metadata: Option<&'a Metadata>, name: &str) -> Option<&'a Kind> {
    metadata?
        .filter_metadata
        .get(NAMESPACE)?
        .fields
        .get(name)?
        .kind
        .as_ref()
}

pub(super) fn string<'a>(metadata: Option<&'a Metadata>, name: &str) -> Option<&'a str> {
    match field(metadata, name)? {
        Kind::StringValue(s) => Some(s),
        _ => None,
    }
}

pub(super) fn number(metadata: Option<&Metadata>, name: &str) -> Option<f64> {
    match field(metadata, name)? {
        Kind::NumberValue(n) => Some(*n),
        _ => None,
    }
}
