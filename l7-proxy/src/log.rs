//! Envoy's log in ours.

use std::io::{self, BufRead, BufReader, Read};

/// What is longer comes in several parts.
const LONGEST_LINE: u64 = 64 * 1024;

/// What [`record`] takes apart: level, component, text.
pub(crate) const FORMAT: &str = "%l\t%n\t%v";

/// Passes on every line until there are no more. Blocks.
pub(crate) fn record(stream: impl Read) {
    let mut stream = BufReader::new(stream);
    while let Ok(Some(line)) = next_line(&mut stream) {
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

/// Whatever bytes it has; `None`: there are no more.
fn next_line(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if stream.take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let line = String::from_utf8_lossy(&line);
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_do_not_end_the_log() {
        let mut log = vec![b'x'; 70_000];
        log.extend(b"\n\xff\xfe\nlast");
        let mut stream = log.as_slice();
        let mut lengths = Vec::new();
        while let Some(line) = next_line(&mut stream).expect("memory") {
            lengths.push(line.chars().count());
        }
        assert_eq!(lengths, [65_536, 70_000 - 65_536, 2, 4]);
    }
}
