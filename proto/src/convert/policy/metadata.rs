//! Conditions that Envoy's RBAC has no field for: `envoy.type.matcher.v3.MetadataMatcher` with filter "weft".

use envoy_types::pb::envoy::config::rbac::v3::SourcedMetadata;
use envoy_types::pb::envoy::r#type::matcher::v3::{
    MetadataMatcher as Pb, StringMatcher, ValueMatcher,
    metadata_matcher::{PathSegment, path_segment::Segment},
    string_matcher, value_matcher,
};

use super::text;
use crate::convert::ConvertError;
use crate::model::policy::{Expr, IpProtocol, Match, PeerKind, StringMatch};

const FILTER: &str = "weft";

/// What a condition is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
}

const KINDS: [(PeerKind, &str); 3] = [
    (PeerKind::Pod, "Pod"),
    (PeerKind::Node, "Node"),
    (PeerKind::External, "External"),
];

const PROTOCOLS: [(IpProtocol, &str); 4] = [
    (IpProtocol::Tcp, "TCP"),
    (IpProtocol::Udp, "UDP"),
    (IpProtocol::Sctp, "SCTP"),
    (IpProtocol::Icmp, "ICMP"),
];

/// The matcher for a condition without a field of its own. One that has no place here at all (a port of the source) is sent as
/// something that only a proxy could tell: it refuses.
pub(super) fn encode(condition: &Match) -> Pb {
    let (path, value) = match condition {
        Match::Namespace(text) => (vec!["namespace"], texts(text)),
        Match::ServiceAccount(text) => (vec!["serviceAccount"], texts(text)),
        Match::SpiffeId(text) => (vec!["spiffeId"], texts(text)),
        Match::Label(key, Some(text)) => (
            vec!["labels", key],
            value_matcher::MatchPattern::StringMatch(text::encode(text)),
        ),
        Match::Label(key, None) => (
            vec!["labels", key],
            value_matcher::MatchPattern::PresentMatch(true),
        ),
        Match::Kind(kind) => (vec!["kind"], word(&KINDS, *kind)),
        Match::Protocol(protocol) => (vec!["protocol"], word(&PROTOCOLS, *protocol)),
        Match::PortName(name) => (vec!["portName"], exact(name)),
        Match::Layer7(what) => (vec!["layer7"], exact(what)),
        Match::Path(_) => (vec!["layer7"], exact("path")),
        Match::Header(name, _) => (vec!["layer7"], exact(name)),
        Match::Address(_) => (vec!["layer7"], exact("address")),
        Match::Ports(..) => (vec!["layer7"], exact("port of the source")),
    };
    Pb {
        filter: FILTER.to_owned(),
        path: path
            .into_iter()
            .map(|key| PathSegment {
                segment: Some(Segment::Key(key.to_owned())),
            })
            .collect(),
        value: Some(ValueMatcher {
            match_pattern: Some(value),
        }),
        invert: false,
    }
}

/// Envoy takes no empty prefix, which means that there is something at all.
fn texts(matcher: &StringMatch) -> value_matcher::MatchPattern {
    if *matcher == StringMatch::anything() {
        return value_matcher::MatchPattern::PresentMatch(true);
    }
    value_matcher::MatchPattern::StringMatch(text::encode(matcher))
}

fn exact(text: &str) -> value_matcher::MatchPattern {
    value_matcher::MatchPattern::StringMatch(StringMatcher {
        match_pattern: Some(string_matcher::MatchPattern::Exact(text.to_owned())),
        ignore_case: false,
    })
}

fn word<T: PartialEq>(words: &[(T, &str)], meaning: T) -> value_matcher::MatchPattern {
    let found = words.iter().find(|(m, _)| *m == meaning);
    exact(found.map_or("", |(_, word)| word))
}

/// Where the metadata comes from makes no difference for filter "weft".
pub(super) fn decode_sourced(pb: &SourcedMetadata, side: Side) -> Result<Expr, ConvertError> {
    let Some(matcher) = &pb.metadata_matcher else {
        return Err(ConvertError::new("metadata_matcher", "is missing"));
    };
    decode(matcher, side).map_err(|e| e.within("metadata_matcher"))
}

pub(super) fn decode(pb: &Pb, side: Side) -> Result<Expr, ConvertError> {
    let condition = if pb.filter == FILTER {
        let path: Vec<&str> = pb
            .path
            .iter()
            .map(|p| match &p.segment {
                Some(Segment::Key(key)) => key.as_str(),
                None => "",
            })
            .collect();
        let value = pb.value.as_ref().and_then(|v| v.match_pattern.as_ref());
        of_path(&path, value, side)?
    } else {
        Expr::Is(Match::Layer7(format!("metadata of {}", pb.filter)))
    };
    Ok(if pb.invert {
        Expr::Not(Box::new(condition))
    } else {
        condition
    })
}

fn of_path(
    path: &[&str],
    value: Option<&value_matcher::MatchPattern>,
    side: Side,
) -> Result<Expr, ConvertError> {
    match (path, side) {
        (["namespace"], _) => of_text(value, Match::Namespace),
        (["serviceAccount"], _) => of_text(value, Match::ServiceAccount),
        (["spiffeId"], Side::Destination) => of_text(value, Match::SpiffeId),
        (["labels", key], _) => match value {
            Some(value_matcher::MatchPattern::PresentMatch(true)) => {
                Ok(Expr::Is(Match::Label((*key).to_owned(), None)))
            }
            _ => of_text(value, |text| Match::Label((*key).to_owned(), Some(text))),
        },
        (["kind"], _) => of_word(value, &KINDS).map(|kind| Expr::Is(Match::Kind(kind))),
        (["protocol"], Side::Destination) => {
            of_word(value, &PROTOCOLS).map(|protocol| Expr::Is(Match::Protocol(protocol)))
        }
        (["portName"], Side::Destination) => {
            of_exact(value).map(|name| Expr::Is(Match::PortName(name.to_owned())))
        }
        (["layer7"], _) => of_exact(value).map(|what| Expr::Is(Match::Layer7(what.to_owned()))),
        (path, side) => Err(ConvertError::new(
            "path",
            format!(
                "[{}] is not one of [namespace], [serviceAccount], [kind], [labels, KEY], [layer7]{}",
                path.join(", "),
                match side {
                    Side::Source => "",
                    Side::Destination => ", [protocol], [portName], [spiffeId]",
                }
            ),
        )),
    }
}

fn of_text(
    value: Option<&value_matcher::MatchPattern>,
    what: impl Fn(StringMatch) -> Match,
) -> Result<Expr, ConvertError> {
    match value {
        Some(value_matcher::MatchPattern::StringMatch(matcher)) => {
            text::decode(matcher, what).map_err(|e| e.within("value.string_match"))
        }
        Some(value_matcher::MatchPattern::PresentMatch(true)) => {
            Ok(Expr::Is(what(StringMatch::anything())))
        }
        _ => Err(ConvertError::new(
            "value",
            "must be a string_match, or present_match: true",
        )),
    }
}

fn of_exact(value: Option<&value_matcher::MatchPattern>) -> Result<&str, ConvertError> {
    match value {
        Some(value_matcher::MatchPattern::StringMatch(StringMatcher {
            match_pattern: Some(string_matcher::MatchPattern::Exact(text)),
            ignore_case: false,
        })) => Ok(text),
        _ => Err(ConvertError::new(
            "value",
            "must be a string_match of kind exact that does not ignore case",
        )),
    }
}

fn of_word<T: Copy>(
    value: Option<&value_matcher::MatchPattern>,
    words: &[(T, &str)],
) -> Result<T, ConvertError> {
    let text = of_exact(value)?;
    let found = words.iter().find(|(_, word)| *word == text);
    found.map(|(meaning, _)| *meaning).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
        ConvertError::new(
            "value.string_match.exact",
            format!("{text:?} is not one of {}", known.join(", ")),
        )
    })
}
