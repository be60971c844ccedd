//! What has become of each object, as far as its users are to know.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use weft_proto::model::{Problem, Severity};

use crate::object::{ObjectRef, Subject};

/// Something that is now different.
#[derive(Debug)]
pub(crate) enum Change {
    /// The object is now this, or is gone.
    Subject(ObjectRef, Option<Subject>),
    /// There is this problem.
    Said(Problem),
    /// There is not any more.
    Unsaid(Problem),
}

/// An object, and what is wrong with it.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) reference: ObjectRef,
    /// `None` for kinds without a status.
    pub(super) subject: Option<Subject>,
    /// The errors come first.
    pub(super) problems: Vec<Problem>,
}

/// All of them; as many as there are objects with a status or a problem.
#[derive(Debug, Default)]
pub(crate) struct Board {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    subjects: HashMap<ObjectRef, Subject>,
    /// By name, so that the order does not depend on time.
    problems: HashMap<ObjectRef, BTreeMap<(bool, String), Problem>>,
    dirty: BTreeSet<ObjectRef>,
}

impl Board {
    /// Takes changes that belong together.
    pub(crate) fn take(&self, changes: impl Iterator<Item = Change>) {
        let mut state = self.lock();
        for change in changes {
            state.take(change);
        }
        if !state.dirty.is_empty() {
            self.changed.notify_one();
        }
    }

    /// Waits until something is to be told.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What is to be told now; the next call has only what changes from here on.
    pub(super) fn next(&self) -> Vec<Verdict> {
        let mut state = self.lock();
        let dirty = std::mem::take(&mut state.dirty);
        dirty.into_iter().map(|r| state.verdict(r)).collect()
    }

    /// Everything is to be told again.
    pub(super) fn all_again(&self) {
        let mut state = self.lock();
        let all: BTreeSet<_> = (state.subjects.keys().chain(state.problems.keys()))
            .cloned()
            .collect();
        state.dirty = all;
        self.changed.notify_one();
    }

    /// This one is to be told again.
    pub(super) fn again(&self, reference: ObjectRef) {
        self.lock().dirty.insert(reference);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, change: Change) {
        let reference = match change {
            Change::Subject(reference, Some(subject)) => {
                self.subjects.insert(reference.clone(), subject);
                reference
            }
            Change::Subject(reference, None) => {
                self.subjects.remove(&reference);
                self.dirty.remove(&reference);
                return;
            }
            Change::Said(problem) => {
                // What is said of no object is told elsewhere.
                let Some(reference) = ObjectRef::parse(&problem.object) else {
                    return;
                };
                let list = self.problems.entry(reference.clone()).or_default();
                list.insert(key(&problem), problem);
                reference
            }
            Change::Unsaid(problem) => {
                let Some(reference) = ObjectRef::parse(&problem.object) else {
                    return;
                };
                if let Some(list) = self.problems.get_mut(&reference) {
                    list.remove(&key(&problem));
                    if list.is_empty() {
                        self.problems.remove(&reference);
                    }
                }
                reference
            }
        };
        self.dirty.insert(reference);
    }

    fn verdict(&self, reference: ObjectRef) -> Verdict {
        let problems = self.problems.get(&reference).map(BTreeMap::values);
        Verdict {
            subject: self.subjects.get(&reference).cloned(),
            problems: problems.into_iter().flatten().cloned().collect(),
            reference,
        }
    }
}

fn key(problem: &Problem) -> (bool, String) {
    (problem.severity != Severity::Error, problem.name())
}
