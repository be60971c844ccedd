//! Draining endpoints get a bounded time to end their connections.

use std::collections::HashMap;
use std::time::Instant;

use super::Engine;
use super::plan::DrainState;
use crate::tables::BackendId;

/// Since when each draining backend drains. Not kept over a restart: the time begins anew.
#[derive(Debug, Default)]
pub(super) struct Drains {
    since: HashMap<BackendId, Drain>,
}

#[derive(Debug)]
struct Drain {
    since: Instant,
    accepts: bool,
    closed: bool,
}

impl Drains {
    pub(super) fn update(&mut self, states: &[DrainState], now: Instant) {
        for state in states {
            if state.draining {
                let drain = self.since.entry(state.id).or_insert(Drain {
                    since: now,
                    accepts: state.accepts,
                    closed: false,
                });
                // New connections came meanwhile: once it accepts no more, they are due as well.
                drain.closed &= !state.accepts;
                drain.accepts = state.accepts;
            } else {
                self.since.remove(&state.id);
            }
        }
    }

    pub(super) fn forget(&mut self, id: BackendId) {
        self.since.remove(&id);
    }
}

impl Engine {
    /// Marks the connections of backends that have drained for too long for closing. One that still takes connections, as the
    /// last resort of its service, is left alone.
    pub(super) fn close_drained(&mut self, now: Instant) {
        for (id, drain) in &mut self.drains.since {
            let age = now.saturating_duration_since(drain.since);
            if !drain.closed && !drain.accepts && age >= self.config.drain_timeout {
                drain.closed = true;
                self.garbage.drained.push(*id);
            }
        }
    }
}
