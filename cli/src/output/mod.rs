//! What the looking verbs print: pure functions from the agent's messages to text.

mod backends;
mod certificates;
mod check;
mod connections;
mod flows;
mod policies;
mod services;
mod status;
mod table;
mod workloads;
mod wrap;

use std::io::{self, IsTerminal, Write};

pub(crate) use backends::backends;
pub(crate) use certificates::{certificates, name as certificate_name};
pub(crate) use check::check;
pub(crate) use connections::connections;
pub(crate) use flows::{FlowLines, lost_json};
pub(crate) use policies::{name as policy_name, policies};
pub(crate) use services::services;
pub(crate) use status::{is_ready, status, status_json};
pub(crate) use table::{Style, Table};
pub(crate) use workloads::{name as workload_name, workloads};

/// Prints `text` to stdout. A reader that has seen enough (`weft services | head`) is no error.
///
/// # Errors
/// When stdout cannot be written to for another reason.
pub(crate) fn print(text: &str) -> io::Result<()> {
    print_more(text).map(|_| ())
}

/// As [`print`]; false when the reader has seen enough.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_more(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|()| true),
    }
}

/// Prints `value` as JSON on a line of its own; false when the reader has seen enough.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json_line<T: serde::Serialize>(value: &T) -> io::Result<bool> {
    let mut text = serde_json::to_string(value)?;
    text.push('\n');
    print_more(&text)
}

/// Prints `value` as one JSON document.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json<T: serde::Serialize>(value: &T) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print(&text)
}

/// How tables look on this process's stdout.
pub(crate) fn style() -> Style {
    if io::stdout().is_terminal() {
        Style::Terminal
    } else {
        Style::Plain
    }
}

#[cfg(test)]
mod tests;
