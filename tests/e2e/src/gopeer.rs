//! Programs on grpc-go and go-control-plane (`peers/xds`), built by `scripts/build-go`.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use serde_json::json;
use weft_lab::{Pod, Process};

use crate::Result;
use crate::wait::LONG;

/// What a client saw.
#[derive(Debug, Deserialize)]
pub struct Calls {
    /// Answers by server.
    pub servers: BTreeMap<String, u32>,
    /// Errors by what they say.
    pub failures: BTreeMap<String, u32>,
}

/// The program.
///
/// # Panics
/// When it was not built.
#[must_use]
pub fn xds() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/go/xds");
    let path = env::var_os("WEFT_TEST_XDS").map_or(built, PathBuf::from);
    assert!(
        path.exists(),
        "{}: no such file: run scripts/build-go tests/e2e/peers/xds, or name the program in WEFT_TEST_XDS",
        path.display()
    );
    path
}

/// A gRPC server in this pod that answers with the pod's name.
///
/// # Errors
/// When it does not listen in time.
pub fn serve(pod: &Pod, port: u16) -> Result<Process> {
    let address = format!("[::]:{port}");
    let mut server = pod
        .command(xds())
        .args(["serve", pod.name(), &address])
        .spawn()?;
    server.wait_for_line("serving", LONG)?;
    Ok(server)
}

/// Calls `target` from this pod, as a client of the management server at `control`.
///
/// # Errors
/// When the client says nothing of its calls.
pub fn call(pod: &Pod, control: &str, target: &str, count: u32) -> Result<Calls> {
    let bootstrap = json!({
        "xds_servers": [{
            "server_uri": control,
            "channel_creds": [{"type": "insecure"}],
            "server_features": ["xds_v3"],
        }],
        "node": {"id": pod.name()},
    });
    let output = pod
        .command(xds())
        .args(["call", target, &count.to_string()])
        .env("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap.to_string())
        .run(Duration::from_secs(120))?
        .success()?;
    output.json().context("what the client saw")
}
