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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(name: &str, port: i64) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": port}]},
        })
    }

    /// What was told: "+" applied, "-" deleted, "!" how many problems.
    fn told(events: &Events) -> Vec<String> {
        let line = |event: &Event| match event {
            Event::Applied(object) => format!("+{}", object.name),
            Event::Deleted(reference) => format!("-{}", reference.name),
            Event::Problems(_, problems) => format!("!{}", problems.len()),
            Event::Subject(..) | Event::Synced => "other".to_owned(),
        };
        events.iter().map(line).collect()
    }

    #[test]
    fn what_a_new_list_lacks_is_gone() {
        let mut seen = Seen::default();
        seen.begin_list();
        for name in ["a", "b"] {
            let events = seen.apply(Kind::Service, service(name, 80));
            assert_eq!(told(&events), [format!("+shop/{name}")]);
        }
        assert!(seen.end_list().is_empty());
        // A list that broke off says nothing; the next one begins anew.
        seen.begin_list();
        seen.apply(Kind::Service, service("a", 80));
        seen.begin_list();
        seen.apply(Kind::Service, service("b", 80));
        assert_eq!(told(&seen.end_list()), ["-shop/a"]);
        assert_eq!(told(&seen.clear()), ["-shop/b"]);
        assert!(seen.clear().is_empty());
    }

    #[test]
    fn what_makes_no_sense_does_not_undo_what_did() {
        let mut seen = Seen::default();
        seen.apply(Kind::Service, service("a", 80));
        let broken = seen.apply(Kind::Service, service("a", 70_000));
        assert_eq!(told(&broken), ["!1"]);
        // Told once.
        assert!(seen.apply(Kind::Service, service("a", 70_000)).is_empty());
        let mended = seen.apply(Kind::Service, service("a", 81));
        assert_eq!(told(&mended), ["+shop/a", "!0"]);
        let reference = ObjectRef::parse("Service shop/a").unwrap();
        assert_eq!(told(&seen.delete(&reference)), ["-shop/a"]);
        assert!(seen.delete(&reference).is_empty());
    }
}
