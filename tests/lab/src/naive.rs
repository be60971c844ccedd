//! Sockmap redirection without any care, to compare with: `fixtures/naive_sockmap.bpf.c`.

use std::fs;
use std::time::Duration;

use crate::{LabError, Launch, Node, Result};

const SOURCE: &str = include_str!("../fixtures/naive_sockmap.bpf.c");
/// Versions of clang that are looked for; the first is the one that `make setup` installs.
const CLANG: &str = r#"for clang in clang-19 clang clang-18 clang-16 clang-15; do
    command -v $clang >/dev/null && exec $clang "$@"
done
echo "no clang on PATH: make setup installs it" >&2; exit 1"#;
const COMPILES_WITHIN: Duration = Duration::from_secs(60);

/// Compiles it, and attaches it to the cgroup of this node alone, with which it goes. Needs clang, the C library's headers, and bpftool.
///
/// # Errors
/// [`LabError::Command`] with what clang or bpftool says.
pub fn attach(node: &Node) -> Result<()> {
    let source = node.run_dir().join("naive_sockmap.bpf.c");
    let object = source.with_extension("o");
    let write = || {
        fs::create_dir_all(node.run_dir())?;
        fs::write(&source, SOURCE)
    };
    write().map_err(LabError::io("write", &source))?;
    let headers = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let clang = node.command("sh").args(["-c", CLANG, "clang"]);
    let clang = clang.args(["-O2", "-g", "-target", "bpf", &headers, "-c"]);
    end(clang.arg(&source).arg("-o").arg(&object))?;

    let [programs, maps] = ["naive", "naive-maps"].map(|pins| node.bpffs().join(pins));
    let bpftool = |words: &[&str]| node.command("bpftool").args(words);
    let load = bpftool(&["prog", "loadall"]).arg(&object).arg(&programs);
    end(load.arg("pinmaps").arg(&maps))?;
    let established = bpftool(&["cgroup", "attach"]).arg(node.cgroup());
    let established = established.args(["sock_ops", "pinned"]);
    end(established
        .arg(programs.join("naive_established"))
        .arg("multi"))?;
    let message = bpftool(&["prog", "attach", "pinned"]).arg(programs.join("naive_message"));
    end(message
        .args(["msg_verdict", "pinned"])
        .arg(maps.join("sockets")))
}

fn end(command: Launch) -> Result<()> {
    command.run(COMPILES_WITHIN)?.success().map(drop)
}
