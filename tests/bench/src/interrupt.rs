//! Ctrl-C and SIGTERM as an ordinary error, so that everything is taken down on
//! the way out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};

static RAISED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Begins to watch for signals.
pub fn watch() -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&RAISED)).context("watching signals")?;
    }
    Ok(())
}

/// Fails once a signal has come.
pub fn check() -> Result<()> {
    if RAISED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
