//! What one part of the agent tells another.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::datapath::Datapath;
use crate::engine::Engine;
use crate::engine::worker::{EngineHandle, EngineStopped};
use crate::interfaces::InterfacesReceiver;

/// Has living connections judged again after each change of policies.
pub(super) async fn tell_policies(
    mut epochs: watch::Receiver<u32>,
    changed: Arc<Notify>,
    drain: CancellationToken,
) {
    loop {
        tokio::select! {
            () = drain.cancelled() => return,
            told = epochs.changed() => match told {
                Ok(()) => changed.notify_one(),
                // The engine has ended, and with it the agent.
                Err(_) => return drain.cancelled().await,
            },
        }
    }
}

/// Hands what is found about local interfaces to the engine.
pub(super) async fn tell_interfaces(
    engine: EngineHandle,
    mut interfaces: InterfacesReceiver,
    drain: CancellationToken,
) -> Result<(), EngineStopped> {
    loop {
        let changed = tokio::select! {
            () = drain.cancelled() => return Ok(()),
            changed = interfaces.changed() => changed,
        };
        if changed.is_err() {
            // The search has ended, and with it the agent.
            drain.cancelled().await;
            return Ok(());
        }
        let known = interfaces.borrow_and_update().clone();
        engine.interfaces(known).await?;
    }
}

/// How often to look whether the tables are complete.
const RETIREMENT_CHECK: Duration = Duration::from_millis(500);

/// An agent of another version serves through its own programs until these tables are complete. Holds the kernel side, whose
/// links and maps are pinned, until the agent ends.
pub(super) async fn retire_others(
    engine: EngineHandle,
    datapath: Box<dyn Datapath>,
    drain: CancellationToken,
) -> Result<(), String> {
    let settled = async {
        loop {
            match engine.query(Engine::is_settled).await {
                Ok(true) => return Ok(()),
                Ok(false) => tokio::time::sleep(RETIREMENT_CHECK).await,
                Err(EngineStopped) => return Err(EngineStopped),
            }
        }
    };
    tokio::select! {
        () = drain.cancelled() => return Ok(()),
        settled = settled => if settled.is_ok()
            && let Err(e) = datapath.retire_others() {
            tracing::warn!("what another version left stays: {e}");
        },
    }
    drain.cancelled().await;
    Ok(())
}
