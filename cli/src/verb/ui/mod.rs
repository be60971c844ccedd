//! `weft ui`: one page with the live map of who talks to whom, and what is behind each edge.

mod api;
mod guard;
mod map;
mod page;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::middleware;
use axum::routing::get;
use tokio::net::TcpListener;

use guard::Guard;

use crate::args::UiArgs;
use crate::output;
use crate::signals;
use crate::watch::Watch;

/// Between two questions to an agent.
const INTERVAL: Duration = Duration::from_secs(1);

/// What answers are made from.
#[derive(Clone)]
struct Shared {
    watch: Arc<Mutex<Watch>>,
}

/// Serves until a signal comes.
///
/// # Errors
/// When the address is taken, or the token cannot be read.
pub(crate) async fn run(args: &UiArgs) -> Result<()> {
    let drain = signals::drain_token()?;
    let guard = Guard::new(args)?;
    let listener = TcpListener::bind(args.ui_listen).await;
    let listener = listener.with_context(|| {
        let address = args.ui_listen;
        format!("{address}: give another address with --ui-listen")
    })?;
    let address = listener.local_addr()?;
    let watch = Arc::new(Mutex::new(Watch::new(&args.watched.paths())));
    let asking = tokio::spawn(Watch::run(Arc::clone(&watch), INTERVAL, || {}));
    let with_token = match guard.has_token() {
        true => "#token=TOKEN",
        false => "",
    };
    output::print(&format!("http://{address}/{with_token}\n"))?;
    let served = axum::serve(listener, router(Shared { watch }, guard))
        .with_graceful_shutdown(drain.cancelled_owned())
        .await;
    asking.abort();
    Ok(served?)
}

fn router(shared: Shared, guard: Guard) -> Router {
    let api = Router::new()
        .route("/api/map", get(api::map))
        .route("/api/flows", get(api::flows))
        .route("/api/policies", get(api::policies))
        .layer(middleware::from_fn_with_state(guard.clone(), guard::token))
        .with_state(shared);
    page::routes()
        .merge(api)
        .layer(middleware::from_fn_with_state(guard, guard::host))
        .layer(middleware::map_response(guard::headers))
}

#[cfg(test)]
mod tests;
