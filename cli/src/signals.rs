//! SIGTERM and SIGINT stop a process in order; the kernel side stays.

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that the first SIGTERM or SIGINT cancels.
///
/// # Errors
/// When the handlers cannot be set.
pub(crate) fn drain_token() -> Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    let token = CancellationToken::new();
    let drain = token.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "stopping; what is in the kernel stays");
        drain.cancel();
    });
    Ok(token)
}
