//! What the audience reads.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stdout};

use weft_lab::Output;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const CYAN: &str = "36";
/// Width of the longest bar.
const BAR: u64 = 40;

fn paint(code: &str, text: &str) -> String {
    if stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// A new act begins.
pub(crate) fn title(text: &str) {
    println!("\n{}", paint(BOLD, text));
}

/// Explains what is about to be seen.
pub(crate) fn explain(text: &str) {
    println!("{}", paint(DIM, text));
}

/// A claim that was checked.
pub(crate) fn holds(text: &str) {
    println!("{} {text}", paint(GREEN, "✓"));
}

/// The demo ends here.
pub(crate) fn failed(text: &str) {
    eprintln!("\n{} {text}", paint(RED, "✗"));
}

/// A command and what it printed.
pub(crate) fn command(line: &str, output: &Output) {
    println!("{}", paint(CYAN, &format!("$ {line}")));
    for line in output.stdout.lines() {
        println!("  {line}");
    }
}

/// Something that is shown as it came.
pub(crate) fn shown(title: &str, lines: &[String]) {
    println!("{}", paint(CYAN, title));
    for line in lines {
        println!("  {line}");
    }
}

/// Answers by server, as bars.
pub(crate) fn bars(by_server: &BTreeMap<String, u64>) {
    let most = by_server.values().copied().max().unwrap_or(1).max(1);
    for (server, count) in by_server {
        let length = usize::try_from(count * BAR / most).unwrap_or_default();
        println!(
            "  {server:<8} {count:>5}  {}",
            paint(GREEN, &"█".repeat(length))
        );
    }
}
