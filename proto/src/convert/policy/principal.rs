//! `envoy.config.rbac.v3.Principal`: conditions on the source.

// Envoy's older fields for the same; servers still send them.
#![allow(deprecated)]

use envoy_types::pb::envoy::config::rbac::v3::{
    Principal as Pb, SourcedMetadata,
    principal::{Authenticated, Identifier, Set},
};

use super::{metadata, request, rules, text};
use crate::convert::{ConvertError, cidr};
use crate::model::policy::{Expr, Match, StringMatch};

pub(super) fn encode(expr: &Expr) -> Pb {
    let set = |list: &[Expr]| Set {
        ids: list.iter().map(encode).collect(),
    };
    let identifier = match expr {
        Expr::Any => Identifier::Any(true),
        // Envoy takes no empty sets.
        Expr::All(list) if list.is_empty() => Identifier::Any(true),
        Expr::OneOf(list) if list.is_empty() => Identifier::NotId(Box::new(encode(&Expr::Any))),
        Expr::All(list) => Identifier::AndIds(set(list)),
        Expr::OneOf(list) => Identifier::OrIds(set(list)),
        Expr::Not(inner) => Identifier::NotId(Box::new(encode(inner))),
        Expr::Is(Match::Address(range)) => Identifier::DirectRemoteIp(cidr::encode(range)),
        Expr::Is(Match::SpiffeId(id)) => Identifier::Authenticated(Authenticated {
            principal_name: (*id != StringMatch::anything()).then(|| text::encode(id)),
        }),
        Expr::Is(Match::Path(path)) => Identifier::UrlPath(request::path(path)),
        Expr::Is(Match::Header(name, value)) => {
            Identifier::Header(request::header(name, value.as_ref()))
        }
        Expr::Is(other) => Identifier::SourcedMetadata(SourcedMetadata {
            metadata_matcher: Some(metadata::encode(other)),
            metadata_source: 0,
        }),
    };
    Pb {
        identifier: Some(identifier),
    }
}

pub(super) fn decode(pb: &Pb) -> Result<Expr, ConvertError> {
    let Some(identifier) = &pb.identifier else {
        return Err(ConvertError::new(
            "",
            "has no condition that is known here: a newer field?",
        ));
    };
    match identifier {
        Identifier::AndIds(set) => {
            rules::decode_list(&set.ids, "and_ids.ids", decode).map(Expr::All)
        }
        Identifier::OrIds(set) => {
            rules::decode_list(&set.ids, "or_ids.ids", decode).map(Expr::OneOf)
        }
        Identifier::NotId(inner) => Ok(Expr::Not(Box::new(
            decode(inner).map_err(|e| e.within("not_id"))?,
        ))),
        Identifier::Any(true) => Ok(Expr::Any),
        Identifier::Any(false) => Err(ConvertError::new("any", "must be true")),
        Identifier::Authenticated(who) => match &who.principal_name {
            None => Ok(Expr::Is(Match::SpiffeId(StringMatch::anything()))),
            Some(name) => text::decode(name, Match::SpiffeId)
                .map_err(|e| e.within("authenticated.principal_name")),
        },
        Identifier::SourceIp(range) => address(range, "source_ip"),
        Identifier::DirectRemoteIp(range) => address(range, "direct_remote_ip"),
        // No proxy stands before the kernel, so both are the address that packets come from.
        Identifier::RemoteIp(range) => address(range, "remote_ip"),
        Identifier::Metadata(matcher) => {
            metadata::decode(matcher, metadata::Side::Source).map_err(|e| e.within("metadata"))
        }
        Identifier::SourcedMetadata(sourced) => {
            metadata::decode_sourced(sourced, metadata::Side::Source)
                .map_err(|e| e.within("sourced_metadata"))
        }
        Identifier::Header(header) => {
            request::decode_header(header).map_err(|e| e.within("header"))
        }
        Identifier::UrlPath(path) => request::decode_path(path).map_err(|e| e.within("url_path")),
        Identifier::FilterState(state) => Ok(layer7(format!("filter state {}", state.key))),
        Identifier::Custom(custom) => Ok(layer7(format!("custom principal {}", custom.name))),
    }
}

fn address(
    range: &envoy_types::pb::envoy::config::core::v3::CidrRange,
    field: &str,
) -> Result<Expr, ConvertError> {
    cidr::decode(range)
        .map(|cidr| Expr::Is(Match::Address(cidr)))
        .map_err(|e| e.within(field))
}

fn layer7(what: String) -> Expr {
    Expr::Is(Match::Layer7(what))
}
