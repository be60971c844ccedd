//! String conditions, ready to be asked.

use regex::Regex;
use weft_proto::model::policy::{Pattern, StringMatch};

/// [`StringMatch`] with its regular expression compiled.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pattern: Compiled,
    ignore_case: bool,
}

#[derive(Clone, Debug)]
enum Compiled {
    Exact(String),
    Prefix(String),
    Suffix(String),
    Contains(String),
    Regex(Regex),
}

impl Text {
    /// `None` when the regular expression is none.
    pub(crate) fn new(condition: &StringMatch) -> Option<Self> {
        let fold = |text: &String| match condition.ignore_case {
            true => text.to_ascii_lowercase(),
            false => text.clone(),
        };
        let pattern = match &condition.pattern {
            Pattern::Exact(text) => Compiled::Exact(fold(text)),
            Pattern::Prefix(text) => Compiled::Prefix(fold(text)),
            Pattern::Suffix(text) => Compiled::Suffix(fold(text)),
            Pattern::Contains(text) => Compiled::Contains(fold(text)),
            // The whole string has to match.
            Pattern::Regex(text) => Compiled::Regex(Regex::new(&format!("^(?:{text})$")).ok()?),
        };
        Some(Self {
            pattern,
            ignore_case: condition.ignore_case,
        })
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        if let Compiled::Regex(regex) = &self.pattern {
            return regex.is_match(text);
        }
        if !self.ignore_case {
            return self.is_in(text);
        }
        self.is_in(&text.to_ascii_lowercase())
    }

    /// The only string that matches, if there is only one.
    pub(crate) fn only(&self) -> Option<&str> {
        match &self.pattern {
            Compiled::Exact(text) if !self.ignore_case => Some(text),
            _ => None,
        }
    }

    fn is_in(&self, text: &str) -> bool {
        match &self.pattern {
            Compiled::Exact(exact) => text == exact,
            Compiled::Prefix(prefix) => text.starts_with(prefix),
            Compiled::Suffix(suffix) => text.ends_with(suffix),
            Compiled::Contains(part) => text.contains(part),
            Compiled::Regex(regex) => regex.is_match(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_what_it_says() {
        let text = |pattern, ignore_case| {
            Text::new(&StringMatch {
                pattern,
                ignore_case,
            })
        };
        let holds = |pattern, ignore_case, on: &str| {
            text(pattern, ignore_case).is_some_and(|text| text.matches(on))
        };
        assert!(holds(Pattern::Exact("Web".into()), true, "wEB"));
        assert!(!holds(Pattern::Exact("Web".into()), false, "web"));
        assert!(holds(Pattern::Prefix("a".into()), false, "ab"));
        assert!(holds(Pattern::Suffix("B".into()), true, "ab"));
        assert!(holds(Pattern::Contains("b".into()), false, "abc"));
        assert!(holds(Pattern::Regex("a|ab".into()), false, "ab"), "whole");
        assert!(!holds(Pattern::Regex("a".into()), false, "ab"));
        assert!(!holds(Pattern::Regex("a".into()), false, "b\na"));
        assert!(text(Pattern::Regex("(".into()), false).is_none());
    }
}
