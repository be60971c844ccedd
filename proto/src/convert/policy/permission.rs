//! `envoy.config.rbac.v3.Permission`: conditions on the destination.

// Envoy's older fields for the same; servers still send them.
#![allow(deprecated)]

use envoy_types::pb::envoy::config::rbac::v3::{
    Permission as Pb, SourcedMetadata,
    permission::{Rule, Set},
};
use envoy_types::pb::envoy::r#type::v3::Int32Range;

use super::{metadata, request, rules};
use crate::convert::{ConvertError, cidr};
use crate::model::policy::{Expr, Match};

pub(super) fn encode(expr: &Expr) -> Pb {
    let set = |list: &[Expr]| Set {
        rules: list.iter().map(encode).collect(),
    };
    let rule = match expr {
        Expr::Any => Rule::Any(true),
        // Envoy takes no empty sets.
        Expr::All(list) if list.is_empty() => Rule::Any(true),
        Expr::OneOf(list) if list.is_empty() => Rule::NotRule(Box::new(encode(&Expr::Any))),
        Expr::All(list) => Rule::AndRules(set(list)),
        Expr::OneOf(list) => Rule::OrRules(set(list)),
        Expr::Not(inner) => Rule::NotRule(Box::new(encode(inner))),
        Expr::Is(Match::Address(range)) => Rule::DestinationIp(cidr::encode(range)),
        Expr::Is(Match::Ports(first, last)) if first == last => {
            Rule::DestinationPort((*first).into())
        }
        Expr::Is(Match::Ports(first, last)) => Rule::DestinationPortRange(Int32Range {
            start: (*first).into(),
            end: i32::from(*last) + 1,
        }),
        Expr::Is(Match::Path(path)) => Rule::UrlPath(request::path(path)),
        Expr::Is(Match::Header(name, value)) => Rule::Header(request::header(name, value.as_ref())),
        Expr::Is(other) => Rule::SourcedMetadata(SourcedMetadata {
            metadata_matcher: Some(metadata::encode(other)),
            metadata_source: 0,
        }),
    };
    Pb { rule: Some(rule) }
}

pub(super) fn decode(pb: &Pb) -> Result<Expr, ConvertError> {
    let Some(rule) = &pb.rule else {
        return Err(ConvertError::new(
            "",
            "has no condition that is known here: a newer field?",
        ));
    };
    match rule {
        Rule::AndRules(set) => {
            rules::decode_list(&set.rules, "and_rules.rules", decode).map(Expr::All)
        }
        Rule::OrRules(set) => {
            rules::decode_list(&set.rules, "or_rules.rules", decode).map(Expr::OneOf)
        }
        Rule::NotRule(inner) => Ok(Expr::Not(Box::new(
            decode(inner).map_err(|e| e.within("not_rule"))?,
        ))),
        Rule::Any(true) => Ok(Expr::Any),
        Rule::Any(false) => Err(ConvertError::new("any", "must be true")),
        Rule::DestinationIp(range) => cidr::decode(range)
            .map(|cidr| Expr::Is(Match::Address(cidr)))
            .map_err(|e| e.within("destination_ip")),
        Rule::DestinationPort(port) => u16::try_from(*port)
            .map(|port| Expr::Is(Match::Ports(port, port)))
            .map_err(|_| ConvertError::new("destination_port", format!("{port} is over 65535"))),
        Rule::DestinationPortRange(range) => port_range(range),
        Rule::Metadata(matcher) => {
            metadata::decode(matcher, metadata::Side::Destination).map_err(|e| e.within("metadata"))
        }
        Rule::SourcedMetadata(sourced) => {
            metadata::decode_sourced(sourced, metadata::Side::Destination)
                .map_err(|e| e.within("sourced_metadata"))
        }
        Rule::Header(header) => request::decode_header(header).map_err(|e| e.within("header")),
        Rule::UrlPath(path) => request::decode_path(path).map_err(|e| e.within("url_path")),
        Rule::UriTemplate(_) => Ok(layer7("URI template".to_owned())),
        Rule::RequestedServerName(_) => Ok(layer7("TLS server name".to_owned())),
        Rule::Matcher(matcher) => Ok(layer7(format!("matcher {}", matcher.name))),
    }
}

/// Envoy's range does not include its end.
fn port_range(range: &Int32Range) -> Result<Expr, ConvertError> {
    let first = u16::try_from(range.start).ok();
    let last = u16::try_from(range.end.saturating_sub(1)).ok();
    match first.zip(last) {
        Some((first, last)) if first <= last => Ok(Expr::Is(Match::Ports(first, last))),
        _ => Err(ConvertError::new(
            "destination_port_range",
            format!(
                "{} up to but without {} is no range of ports from 0 to 65535",
                range.start, range.end
            ),
        )),
    }
}

fn layer7(what: String) -> Expr {
    Expr::Is(Match::Layer7(what))
}
