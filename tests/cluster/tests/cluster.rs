//! A real cluster: see `tests/cluster/run`, which says what is seen there.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use weft_lab::tools;

#[test]
fn weft_from_its_chart_is_all_that_a_cluster_needs() -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("run");
    // In a file's stead: what it says is worth reading when it fails.
    let output = Command::new(&script)
        .env("WEFT_BIN", tools::weft()?)
        .env("WEFT_PROBE_BIN", tools::probe()?)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", script.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}\n{errors}");
    let last = said.lines().last().unwrap_or_default();
    ensure!(last.ends_with("all as it should be"), "{said}\n{errors}");
    Ok(())
}
