//! Brings the tables up to date, step by step as [`super`] says.

use std::collections::BTreeSet;
use std::mem::take;

use super::{Dirty, PolicyEngine};

impl PolicyEngine {
    /// Writes whatever has changed. What cannot be written stays as it was, with its reason; [`PolicyEngine::retry`] tries again.
    pub fn apply(&mut self) {
        if !self.synced {
            return;
        }
        let Dirty {
            addresses,
            pods,
            mut cidrs,
        } = take(&mut self.dirty);
        // Before a local pod is let in to by its policies for the first time.
        self.stale |= self.mtls.apply(&mut self.tables.mtls);
        cidrs.extend(self.replan(&pods));
        self.readdress(addresses, &cidrs);
        self.send(&pods);
        self.take_back();
        self.raise_epoch();
        self.free_identities();
    }

    /// Tries again what could not be written or deleted.
    pub fn retry(&mut self) {
        if !self.synced {
            return;
        }
        self.stale |= self.mtls.apply(&mut self.tables.mtls);
        self.republish();
        let failed = self.failed_pods();
        self.send(&failed);
        self.sets.sweep(&mut self.tables);
        self.take_back();
        self.raise_epoch();
        self.free_identities();
    }

    /// Whatever nobody needs any more.
    fn take_back(&mut self) {
        self.delete_pods();
        let unmentioned = self.delete_sets();
        if !unmentioned.is_empty() {
            self.readdress(BTreeSet::new(), &unmentioned);
        }
        self.unpublish();
    }

    fn raise_epoch(&mut self) {
        if self.stale {
            match self.mirror.raise_epoch(&mut self.tables) {
                Ok(()) => self.stale = false,
                Err(e) => tracing::warn!("connections are not judged again for now: {e}"),
            }
        }
    }
}
