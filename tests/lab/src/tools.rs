//! Finding the programs of this workspace.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::{LabError, Result};

/// Cargo puts this file in every target directory.
const TARGET_MARK: &str = "CACHEDIR.TAG";

/// The `weft` binary: `WEFT_BIN`, else the newest in the target directory.
///
/// # Errors
/// [`LabError::MissingProgram`] says how to build it.
pub fn weft() -> Result<PathBuf> {
    find("weft", "WEFT_BIN", "cargo build -p weft")
}

/// The `weft-probe` binary: `WEFT_PROBE_BIN`, else the newest in the target directory.
///
/// # Errors
/// [`LabError::MissingProgram`] says how to build it.
pub fn probe() -> Result<PathBuf> {
    find("weft-probe", "WEFT_PROBE_BIN", "cargo build -p weft-lab")
}

fn find(program: &'static str, variable: &'static str, hint: &'static str) -> Result<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        return Ok(path.into());
    }
    let target = target_dir();
    let candidates = ["release", "debug"].map(|profile| target.join(profile).join(program));
    candidates
        .into_iter()
        .filter_map(|path| Some((modified(&path)?, path)))
        .max()
        .map(|(_, path)| path)
        .ok_or(LabError::MissingProgram {
            program,
            searched: target.join("{release,debug}").display().to_string(),
            hint,
            variable,
        })
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// The target directory that the running test or binary came from; that of the workspace otherwise.
fn target_dir() -> PathBuf {
    let exe = env::current_exe().unwrap_or_default();
    let marked = exe.ancestors().find(|dir| dir.join(TARGET_MARK).exists());
    marked.map_or_else(|| workspace().join("target"), Path::to_owned)
}

/// Where the sources are, or were when this was built. Not `../..`: a test guest has no sources, only the target
/// directory.
pub fn workspace() -> PathBuf {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR"));
    lab.ancestors().nth(2).unwrap_or(lab).to_owned()
}
