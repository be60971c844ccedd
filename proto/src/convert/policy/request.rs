//! Conditions on an HTTP request: `envoy.config.route.v3.HeaderMatcher` and `envoy.type.matcher.v3.PathMatcher`.

use envoy_types::pb::envoy::config::route::v3::{
    HeaderMatcher, header_matcher::HeaderMatchSpecifier,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{PathMatcher, path_matcher};

use super::text;
use crate::convert::ConvertError;
use crate::model::policy::{Expr, Match, StringMatch};

/// Envoy takes no empty prefix, which means that there is something at all.
pub(super) fn header(name: &str, value: Option<&StringMatch>) -> HeaderMatcher {
    let value = value.filter(|value| !value.is_anything());
    HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(match value {
            Some(value) => HeaderMatchSpecifier::StringMatch(text::encode(value)),
            None => HeaderMatchSpecifier::PresentMatch(true),
        }),
        ..Default::default()
    }
}

/// No path is empty, so "begins with /" is "there is one".
pub(super) fn path(value: &StringMatch) -> PathMatcher {
    let slash;
    let value = if value.is_anything() {
        slash = StringMatch::prefix("/");
        &slash
    } else {
        value
    };
    PathMatcher {
        rule: Some(path_matcher::Rule::Path(text::encode(value))),
    }
}

/// What is more than a string matcher, nobody here judges.
pub(super) fn decode_header(pb: &HeaderMatcher) -> Result<Expr, ConvertError> {
    let opaque = || Ok(Expr::Is(Match::Layer7(format!("header {}", pb.name))));
    if pb.treat_missing_header_as_empty || pb.name.is_empty() {
        return opaque();
    }
    let condition = match &pb.header_match_specifier {
        Some(HeaderMatchSpecifier::StringMatch(value)) => text::decode(value, |value| {
            Match::Header(pb.name.to_ascii_lowercase(), Some(value))
        })
        .map_err(|e| e.within("string_match"))?,
        Some(HeaderMatchSpecifier::PresentMatch(true)) | None => {
            Expr::Is(Match::Header(pb.name.to_ascii_lowercase(), None))
        }
        Some(_) => return opaque(),
    };
    Ok(if pb.invert_match {
        Expr::Not(Box::new(condition))
    } else {
        condition
    })
}

pub(super) fn decode_path(pb: &PathMatcher) -> Result<Expr, ConvertError> {
    match &pb.rule {
        Some(path_matcher::Rule::Path(value)) => {
            text::decode(value, Match::Path).map_err(|e| e.within("path"))
        }
        None => Err(ConvertError::new("path", "is missing")),
    }
}
