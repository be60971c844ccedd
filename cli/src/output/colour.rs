//! Colours, where a person looks and wants them.

use std::env;
use std::io::{self, IsTerminal};

/// A colour of the terminal's own palette, so that it suits the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Refused, wrong.
    Red,
    /// Let through.
    Green,
    /// To be looked at.
    Yellow,
    /// Less important.
    Dim,
}

/// Whether stdout is a terminal whose user has not said no (<https://no-color.org>).
pub(crate) fn wanted() -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !refused && !dumb
}

impl Colour {
    const fn code(self) -> &'static str {
        match self {
            Self::Red => "1;31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Dim => "2",
        }
    }

    /// `text` in this colour.
    pub(crate) fn paint(self, text: &str) -> String {
        format!("\x1b[{}m{text}\x1b[0m", self.code())
    }
}
