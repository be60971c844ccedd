//! What a watch has told, so that a new list says what is gone.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use weft_proto::model::Problem;

use crate::object::{Kind, ObjectRef, Subject};
use crate::read::Reading;
use crate::source::{Event, Events};

/// The objects of one kind, as far as they have been told.
#[derive(Debug, Default)]
pub(super) struct Seen {
    objects: HashMap<ObjectRef, State>,
    /// Number of the list that is read now, or was read last.
    list: u64,
}

#[derive(Debug)]
struct State {
    /// The last list that had it.
    list: u64,
    /// It can be used, and was told.
    applied: bool,
    problems: Vec<Problem>,
}

impl Seen {
    /// A list begins. What is not in it is gone at its end.
    pub(super) fn begin_list(&mut self) {
        self.list += 1;
    }

    /// The list was whole.
    pub(super) fn end_list(&mut self) -> Events {
        let list = self.list;
        let gone: Vec<ObjectRef> = self
            .objects
            .iter()
            .filter(|(_, state)| state.list != list)
            .map(|(reference, _)| reference.clone())
            .collect();
        gone.iter()
            .flat_map(|reference| self.delete(reference))
            .collect()
    }

    /// The kind is gone, and with it all objects.
    pub(super) fn clear(&mut self) -> Events {
        self.begin_list();
        self.end_list()
    }

    /// The object is there, and is now this.
    pub(super) fn apply(&mut self, kind: Kind, value: Value) -> Events {
        let subject = Subject::of(kind, &value);
        let mut reading = Reading::default();
        reading.add(value, &Arc::from(""));
        let Reading { items, problems } = reading;
        let mut events = Events::new();
        for item in items {
            let before = self.objects.remove(&item.reference);
            // What the server took though it makes no sense does not undo what made sense before.
            let keep = !item.sound && before.as_ref().is_some_and(|b| b.applied);
            let was_applied = before.as_ref().is_some_and(|b| b.applied);
            let applied = match item.object {
                _ if keep => true,
                Some(object) => {
                    events.push(Event::Applied(object));
                    true
                }
                None => {
                    if was_applied {
                        events.push(Event::Deleted(item.reference.clone()));
                    }
                    false
                }
            };
            let told = before.map(|b| b.problems).unwrap_or_default();
            if told != problems {
                events.push(Event::Problems(
                    item.reference.to_string(),
                    problems.clone(),
                ));
            }
            if subject.is_some() {
                events.push(Event::Subject(item.reference.clone(), subject.clone()));
            }
            let state = State {
                list: self.list,
                applied,
                problems: problems.clone(),
            };
            self.objects.insert(item.reference, state);
        }
        events
    }

    /// The object is gone.
    pub(super) fn delete(&mut self, reference: &ObjectRef) -> Events {
        let Some(state) = self.objects.remove(reference) else {
            return Events::new();
        };
        let mut events = Events::new();
        if state.applied {
            events.push(Event::Deleted(reference.clone()));
        }
        if reference.kind.has_status() {
            events.push(Event::Subject(reference.clone(), None));
        }
        if !state.problems.is_empty() {
            events.push(Event::Problems(reference.to_string(), Vec::new()));
        }
        events
    }
}
