//! What can go wrong while a lab is built, used or removed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// An error of the lab; the text says what to do where there is something to do.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Network namespaces, cgroups and bpffs need root.
    #[error("the lab makes network namespaces and cgroups: run it as root")]
    NotRoot,
    /// No mount of type cgroup2 in `/proc/self/mounts`.
    #[error("no cgroup v2 mount found: mount one, e.g. `mount -t cgroup2 cgroup2 /sys/fs/cgroup`")]
    NoCgroup2,
    /// A system call on a file or directory failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried, as a verb ("create", "read").
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A helper program could not be started.
    #[error("cannot start `{program}`: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A program ended with an error.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The command line.
        command: String,
        /// Exit status or signal.
        status: String,
        /// What it said.
        stderr: String,
    },
    /// A program or condition took too long.
    #[error("{what} did not happen within {after:?}{detail}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        after: Duration,
        /// What was seen instead; empty or starting with a separator.
        detail: String,
    },
    /// `weft` does not get ready.
    #[error("weft on {node} is not ready after {within:?}: {said}\nits log ends:\n{log}")]
    NotReady {
        /// The node.
        node: String,
        /// How long was allowed.
        within: Duration,
        /// What `weft status` says.
        said: String,
        /// The end of its log.
        log: String,
    },
    /// A program of this workspace is not built.
    #[error(
        "`{program}` not found (looked in {searched}): build it with `{hint}` or set {variable}"
    )]
    MissingProgram {
        /// Name of the binary.
        program: &'static str,
        /// Where it was looked for.
        searched: String,
        /// The command that makes it.
        hint: &'static str,
        /// The variable that names it.
        variable: &'static str,
    },
    /// No node or pod of that name.
    #[error("this lab has no {kind} named `{name}`")]
    Unknown {
        /// "node" or "pod".
        kind: &'static str,
        /// The name asked for.
        name: String,
    },
    /// The same name twice, or one that cannot be a file name.
    #[error("bad {kind} name `{name}`: {reason}")]
    BadName {
        /// "node" or "pod".
        kind: &'static str,
        /// The name given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A manifest that a lab is to be built from does not fit.
    #[error("{path}: {reason}")]
    Manifest {
        /// The file or folder.
        path: PathBuf,
        /// The object, the field, and what is wrong.
        reason: String,
    },
    /// An address that the plan does not have on that node, or that is in use.
    #[error("pod `{pod}` cannot have address {address}: {reason}")]
    BadAddress {
        /// The pod.
        pod: String,
        /// Its IPv4 address.
        address: std::net::Ipv4Addr,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// More nodes or pods than the address plan holds.
    #[error("too many {kind}s: the address plan holds {limit}")]
    Full {
        /// "node" or "pod".
        kind: &'static str,
        /// The most there can be.
        limit: usize,
    },
    /// A program printed something that is not the JSON expected.
    #[error("cannot parse the output of `{command}`: {source}; output: {output}")]
    Parse {
        /// The command line.
        command: String,
        /// The parser's reason.
        source: serde_json::Error,
        /// What was printed.
        output: String,
    },
}

impl LabError {
    /// For `map_err`: an [`LabError::Io`] with action and path.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
