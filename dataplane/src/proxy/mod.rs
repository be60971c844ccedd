//! What the agent does for the node's Envoy: has packets reach it, tells the kernel whether it serves, and passes on what the control
//! plane has for it. Starting it and keeping it alive is another's business (`weft-l7-proxy`).

mod access_log;
mod owners;
mod relay;
mod request_log;
mod routing;
mod span_wire;
mod spans;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use access_log::{AccessLog, QUEUE as JUDGEMENTS};
pub use owners::Owners;
pub use relay::Relay;
pub use routing::{Routing, remove as remove_routing};
pub use spans::RequestSpans;

use crate::bpf::{Record, types};
use crate::tables::Table;

/// An Envoy that somebody else keeps alive.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// Whether it serves. The sender is dropped once it has ended for good.
    pub ready: watch::Receiver<bool>,
    /// Unix socket where it finds its control plane: the agent listens there.
    pub control: PathBuf,
}

/// The element of map `proxy_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyState {
    /// It serves: what is for it is handed over, not refused.
    pub ready: bool,
    /// What comes to local pods may be for it.
    pub steering: Steering,
}

/// What comes from other nodes for the node's Envoy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Connections to some local pod are judged by it.
    pub inbound: bool,
    /// Tunnels to local pods.
    pub tunnels: bool,
}

const INBOUND: u32 = types::steering::STEER_INBOUND.0;
const TUNNELS: u32 = types::steering::STEER_TUNNELS.0;

impl Record for ProxyState {
    type Raw = types::proxy_state;

    fn to_raw(&self) -> Self::Raw {
        types::proxy_state {
            ready: self.ready.into(),
            steering: if self.steering.inbound { INBOUND } else { 0 }
                | if self.steering.tunnels { TUNNELS } else { 0 },
        }
    }

    fn from_raw(raw: Self::Raw) -> Option<Self> {
        Some(Self {
            ready: raw.ready == 1,
            steering: Steering {
                inbound: raw.steering & INBOUND != 0,
                tunnels: raw.steering & TUNNELS != 0,
            },
        })
    }
}

/// Envoy may take this long to finish what it has begun, once the agent stops.
const LEAVE_WITHIN: Duration = Duration::from_secs(15);

/// Tells the kernel whether Envoy serves, until it has ended for good; then takes the routing away.
///
/// # Errors
/// When the kernel cannot be told: it would hand over to nobody.
pub async fn follow(
    mut ready: watch::Receiver<bool>,
    mut steering: watch::Receiver<Steering>,
    mut switch: Box<dyn Table<u32, ProxyState>>,
    routing: Option<Routing>,
    drain: CancellationToken,
) -> Result<(), String> {
    let told = loop {
        let state = ProxyState {
            ready: *ready.borrow_and_update(),
            steering: *steering.borrow_and_update(),
        };
        if let Err(e) = switch.write(&[(0, state)]) {
            break Err(e.to_string());
        }
        let changed = async {
            tokio::select! {
                changed = ready.changed() => changed.is_ok(),
                Ok(()) = steering.changed() => true,
                () = async {
                    drain.cancelled().await;
                    tokio::time::sleep(LEAVE_WITHIN).await;
                } => false,
            }
        };
        if !changed.await {
            break Ok(());
        }
    };
    if let Err(e) = switch.write(&[(0, ProxyState::default())]) {
        tracing::warn!("the kernel was not told that Envoy has ended: {e}");
    }
    if let Some(routing) = routing {
        routing.remove();
    }
    drain.cancelled().await;
    told
}

/// Tells the kernel that no Envoy serves.
///
/// # Errors
/// When it cannot be told.
pub async fn without(
    mut switch: Box<dyn Table<u32, ProxyState>>,
    drain: CancellationToken,
) -> Result<(), String> {
    let told = switch.write(&[(0, ProxyState::default())]);
    told.map_err(|e| e.to_string())?;
    drain.cancelled().await;
    Ok(())
}
