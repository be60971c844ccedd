//! What the kernel of a pod or a node counts, as it would be read there.

use std::collections::BTreeMap;
use std::fs;

use weft_lab::Pod;
use weft_lab::netns::Netns;

use crate::Result;

fn read(netns: &Netns, file: &str) -> Result<String> {
    let path = format!("/proc/thread-self/net/{file}");
    Ok(netns.run(|| fs::read_to_string(path))??)
}

/// The counters of `/proc/net/snmp` and `snmp6`, by name: `Tcp:InSegs`, `Icmp6InPktTooBigs`.
///
/// # Errors
/// When they cannot be read.
pub fn counters(pod: &Pod) -> Result<BTreeMap<String, u64>> {
    counters_in(pod.netns())
}

/// As [`counters`], of a network namespace.
///
/// # Errors
/// As there.
pub fn counters_in(netns: &Netns) -> Result<BTreeMap<String, u64>> {
    let mut counters = BTreeMap::new();
    // A line of names, then a line of values, each after the protocol's name.
    let (v4, v6) = (read(netns, "snmp")?, read(netns, "snmp6")?);
    let mut lines = v4.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (mut names, values) = (names.split_whitespace(), values.split_whitespace());
        let protocol = names.next().unwrap_or_default();
        for (name, value) in names.zip(values.skip(1)) {
            counters.insert(format!("{protocol}{name}"), value.parse().unwrap_or(0));
        }
    }
    for line in v6.lines() {
        if let Some((name, value)) = line.split_once(char::is_whitespace) {
            counters.insert(name.to_owned(), value.trim().parse().unwrap_or(0));
        }
    }
    Ok(counters)
}

/// TCP connections, of both families, that are established in a pod and have this port there.
///
/// # Errors
/// When they cannot be read.
pub fn established(pod: &Pod, port: u16) -> Result<usize> {
    const ESTABLISHED: &str = "01";
    let port = format!(":{port:04X}");
    let counts = |line: &&str| {
        // Number, local address, remote address, state.
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(&port))
            && words.nth(1) == Some(ESTABLISHED)
    };
    let (v4, v6) = (read(pod.netns(), "tcp")?, read(pod.netns(), "tcp6")?);
    Ok(v4.lines().chain(v6.lines()).filter(counts).count())
}
