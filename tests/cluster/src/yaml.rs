//! Manifests for the API server.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// The documents of a YAML file that are not empty.
pub fn documents(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| format!("in {}", path.display()))
}

/// The documents of a YAML text that are not empty.
pub fn parse(text: &str) -> Result<Vec<Value>> {
    let values: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(values.into_iter().filter(|v| !v.is_null()).collect())
}

/// A file of this repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}
