//! Which file says what, and which of them counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use weft_proto::model::{Problem, Severity};

use super::file::Content;
use crate::object::{Object, ObjectRef};
use crate::source::Event;

/// All files by name, and from them the objects in effect.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    files: BTreeMap<Arc<str>, File>,
    /// Files that have the object, by name: the first one counts.
    claims: HashMap<ObjectRef, BTreeSet<Arc<str>>>,
    /// What has been told.
    effective: HashMap<ObjectRef, Object>,
}

#[derive(Debug, Default)]
struct File {
    objects: BTreeMap<ObjectRef, Object>,
    /// Problems of its own.
    problems: Vec<Problem>,
    /// What has been told: its own, and the objects that another file defines first.
    told: Vec<Problem>,
}

impl Ledger {
    /// The names of all files.
    pub(super) fn files(&self) -> impl Iterator<Item = &Arc<str>> {
        self.files.keys()
    }

    /// Takes what the file `name` says now (`None`: it is gone) and returns what that changes.
    pub(super) fn update(&mut self, name: &Arc<str>, content: Option<Content>) -> Vec<Event> {
        let mut old = self.files.remove(name).unwrap_or_default();
        let touched_before: BTreeSet<ObjectRef> = old.objects.keys().cloned().collect();
        let told = std::mem::take(&mut old.told);
        let (objects, problems) = match content {
            Some(content) => merge(content, old.objects),
            None => (BTreeMap::new(), Vec::new()),
        };
        let mut touched = touched_before;
        touched.extend(objects.keys().cloned());
        for reference in &touched {
            self.claim(reference, name, objects.contains_key(reference));
        }
        let gone = objects.is_empty() && problems.is_empty();
        let mut events = Vec::new();
        if gone {
            if !told.is_empty() {
                events.push(Event::Problems(name.to_string(), Vec::new()));
            }
        } else {
            self.files.insert(
                Arc::clone(name),
                File {
                    objects,
                    problems,
                    told,
                },
            );
        }
        let mut affected = BTreeSet::from([Arc::clone(name)]);
        for reference in touched {
            affected.extend(self.claims.get(&reference).into_iter().flatten().cloned());
            events.extend(self.settle(reference));
        }
        events.extend(affected.iter().filter_map(|file| self.tell_problems(file)));
        events
    }

    fn claim(&mut self, reference: &ObjectRef, file: &Arc<str>, holds: bool) {
        if holds {
            let claims = self.claims.entry(reference.clone()).or_default();
            claims.insert(Arc::clone(file));
        } else if let Some(claims) = self.claims.get_mut(reference) {
            claims.remove(file);
            if claims.is_empty() {
                self.claims.remove(reference);
            }
        }
    }

    /// The object that counts under this name, compared with what has been told.
    fn settle(&mut self, reference: ObjectRef) -> Option<Event> {
        let winner = self
            .claims
            .get(&reference)
            .and_then(|files| files.first())
            .and_then(|file| self.files.get(file)?.objects.get(&reference));
        match winner {
            None => self
                .effective
                .remove(&reference)
                .map(|_| Event::Deleted(reference)),
            Some(object) if self.effective.get(&reference) == Some(object) => None,
            Some(object) => {
                self.effective.insert(reference, object.clone());
                Some(Event::Applied(object.clone()))
            }
        }
    }

    fn tell_problems(&mut self, name: &Arc<str>) -> Option<Event> {
        let mut problems = self.files.get(name)?.problems.clone();
        problems.extend(self.overruled(name));
        let file = self.files.get_mut(name)?;
        if problems == file.told {
            return None;
        }
        file.told.clone_from(&problems);
        Some(Event::Problems(name.to_string(), problems))
    }

    /// Objects of the file that an earlier file defines as well.
    fn overruled<'a>(&'a self, name: &'a Arc<str>) -> impl Iterator<Item = Problem> + 'a {
        let objects = self.files.get(name).map(|f| &f.objects);
        objects
            .into_iter()
            .flatten()
            .filter_map(move |(reference, object)| {
                let first = self.claims.get(reference)?.first()?;
                let winner = self.files.get(first)?.objects.get(reference)?;
                (first != name).then(|| duplicate(reference, object, winner))
            })
    }
}

pub(super) fn duplicate(reference: &ObjectRef, loser: &Object, winner: &Object) -> Problem {
    Problem {
        origin: loser.origin.to_string(),
        object: reference.to_string(),
        field: "metadata.name".to_owned(),
        message: format!(
            "is already defined at {}, and that one counts: remove one of the two",
            winner.origin
        ),
        severity: Severity::Error,
    }
}

/// What the file means now, given what it meant before: an object that was sound and is not any more stays as it was.
fn merge(
    content: Content,
    mut old: BTreeMap<ObjectRef, Object>,
) -> (BTreeMap<ObjectRef, Object>, Vec<Problem>) {
    let mut objects: BTreeMap<ObjectRef, Object> = BTreeMap::new();
    let mut problems = content.problems;
    for item in content.items {
        if let (Some(first), Some(second)) = (objects.get(&item.reference), &item.object) {
            problems.push(duplicate(&item.reference, second, first));
            continue;
        }
        let last_good = (!item.sound).then(|| old.remove(&item.reference)).flatten();
        if let Some(object) = last_good.or(item.object) {
            objects.insert(item.reference, object);
        }
    }
    if content.unreadable {
        // One of these may be what the unreadable part was about.
        for (reference, object) in old {
            objects.entry(reference).or_insert(object);
        }
    }
    (objects, problems)
}
