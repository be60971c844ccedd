//! gRPC, by grpc-go.

use anyhow::ensure;
use weft_e2e::{Result, gopeer};

use crate::site::{PORT, Polling, compare};

const CALLS: u32 = 5_000;

#[test]
fn grpc_answers_every_call() -> Result {
    compare(Polling::Always, |site| {
        let server = gopeer::serve(&site.server()?, PORT)?;
        let target = format!("passthrough:///{}:{PORT}", site.host()?);
        let calls = gopeer::call(&site.client()?, "127.0.0.1:1", &target, CALLS)?;
        ensure!(calls.failures.is_empty(), "{calls:?}");
        ensure!(calls.servers.get("server") == Some(&CALLS), "{calls:?}");
        Ok((server, calls.servers))
    })
}
