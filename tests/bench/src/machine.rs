//! What the figures were taken on.

use std::fs;
use std::process::Command;

/// One line per fact: processor, memory, kernel, versions of the peers' tools.
pub fn describe() -> Vec<String> {
    let mut lines = vec![processor(), memory(), kernel()];
    for program in ["iptables", "nft"] {
        lines.extend(first_line(program, &["--version"]));
    }
    lines
}

/// Now, UTC, ISO 8601.
pub fn date() -> String {
    first_line("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]).unwrap_or_default()
}

/// The command line, with the program by its name alone and folders left out: they
/// say nothing to whoever repeats it elsewhere.
pub fn command_line() -> String {
    let mut words = vec!["tests/bench/run".to_owned()];
    words.extend(arguments(&["--kubernetes", "--weft", "--out"]));
    words.join(" ")
}

/// The words behind the verb, without these options and their values.
pub fn arguments(without: &[&str]) -> Vec<String> {
    let mut words = Vec::new();
    let mut arguments = std::env::args().skip(2);
    while let Some(argument) = arguments.next() {
        if without.contains(&argument.as_str()) {
            arguments.next();
        } else {
            words.push(argument);
        }
    }
    words
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cores} cores, {}",
        model.unwrap_or("unknown processor").trim()
    )
}

fn memory() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?
            .split_whitespace()
            .next()?
            .parse::<f64>()
            .ok()
    });
    format!(
        "{:.0} GiB of memory",
        kib.unwrap_or_default() / 1024.0 / 1024.0
    )
}

fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim())
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    Some(
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .next()?
            .to_owned(),
    )
}
