//! Finding the programs of Kubernetes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The folder with these programs (`kube-apiserver`, `kubectl`, ...). Those that are not there are built: minutes, once.
pub fn folder(programs: &[&str]) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-kubernetes");
    let output = Command::new(&script)
        .args(programs)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", script.display()))?;
    ensure!(output.status.success(), "{} failed", script.display());
    let said = String::from_utf8_lossy(&output.stdout);
    let folder = said.lines().last().unwrap_or_default();
    ensure!(!folder.is_empty(), "{} named no folder", script.display());
    Ok(folder.into())
}
