//! `envoy.type.matcher.v3.StringMatcher`.

use envoy_types::pb::envoy::r#type::matcher::v3::{
    RegexMatcher, StringMatcher as Pb, string_matcher::MatchPattern,
};

use crate::convert::ConvertError;
use crate::model::policy::{Expr, Match, Pattern, StringMatch};

pub(in crate::convert) fn encode(text: &StringMatch) -> Pb {
    Pb {
        ignore_case: text.ignore_case,
        match_pattern: Some(match &text.pattern {
            Pattern::Exact(s) => MatchPattern::Exact(s.clone()),
            Pattern::Prefix(s) => MatchPattern::Prefix(s.clone()),
            Pattern::Suffix(s) => MatchPattern::Suffix(s.clone()),
            Pattern::Contains(s) => MatchPattern::Contains(s.clone()),
            Pattern::Regex(s) => MatchPattern::SafeRegex(RegexMatcher {
                regex: s.clone(),
                ..RegexMatcher::default()
            }),
        }),
    }
}

/// The condition that `what` makes of the string matcher; one that needs an extension is a proxy's.
pub(super) fn decode(pb: &Pb, what: impl Fn(StringMatch) -> Match) -> Result<Expr, ConvertError> {
    let Some(pattern) = &pb.match_pattern else {
        return Err(ConvertError::new(
            "",
            "has no pattern that is known here: use exact, prefix, suffix, contains or safe_regex",
        ));
    };
    let pattern = match pattern {
        MatchPattern::Exact(s) => Pattern::Exact(s.clone()),
        MatchPattern::Prefix(s) => Pattern::Prefix(s.clone()),
        MatchPattern::Suffix(s) => Pattern::Suffix(s.clone()),
        MatchPattern::Contains(s) => Pattern::Contains(s.clone()),
        MatchPattern::SafeRegex(regex) => Pattern::Regex(checked(&regex.regex)?),
        MatchPattern::Custom(custom) => {
            let name = format!("string matcher {}", custom.name);
            return Ok(Expr::Is(Match::Layer7(name)));
        }
    };
    Ok(Expr::Is(what(StringMatch {
        ignore_case: pb.ignore_case && !matches!(pattern, Pattern::Regex(_)),
        pattern,
    })))
}

fn checked(regex: &str) -> Result<String, ConvertError> {
    regex::Regex::new(regex)
        .map(|_| regex.to_owned())
        .map_err(|e| {
            // The others draw the place in several lines.
            let text = e.to_string();
            let last = text.lines().last().unwrap_or_default();
            ConvertError::new("safe_regex.regex", format!("{regex:?}: {last}"))
        })
}
