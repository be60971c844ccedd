//! Envoy's log in ours.

use std::io::{BufRead, BufReader, Read};

/// What [`record`] takes apart: level, component, text.
pub(crate) const FORMAT: &str = "%l\t%n\t%v";

/// Passes on every line until there are no more. Blocks.
pub(crate) fn record(stream: impl Read) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let mut parts = line.splitn(3, '\t');
        let (level, rest) = (
            parts.next().unwrap_or_default(),
            (parts.next(), parts.next()),
        );
        match (level, rest) {
            ("critical" | "error", (Some(part), Some(text))) => {
                tracing::error!(target: "envoy", "{part}: {text}");
            }
            ("warning", (Some(part), Some(text))) => {
                tracing::warn!(target: "envoy", "{part}: {text}");
            }
            ("info" | "debug" | "trace", (Some(part), Some(text))) => {
                tracing::debug!(target: "envoy", "{part}: {text}");
            }
            // What comes in several lines, as a crash does.
            _ => tracing::warn!(target: "envoy", "{line}"),
        }
    }
}
