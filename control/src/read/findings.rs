//! What is wrong with one object, gathered field by field.

use std::sync::Arc;

use weft_proto::model::{Problem, Severity};

/// Findings about one object, and whether Kubernetes itself would take it.
#[derive(Debug, Default)]
pub(super) struct Findings {
    list: Vec<(String, String, Severity)>,
    unsound: bool,
}

impl Findings {
    /// Kubernetes would refuse the object for this: when an earlier version of it was sound, that one stays.
    pub(super) fn invalid(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.unsound = true;
        self.unsupported(field, message);
    }

    /// Legal, but Weft cannot do it: this part of the object is not in effect.
    pub(super) fn unsupported(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.push(field, message, Severity::Error);
    }

    /// In effect, but perhaps not as the author thinks.
    pub(super) fn warn(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.push(field, message, Severity::Warning);
    }

    fn push(&mut self, field: impl Into<String>, message: impl Into<String>, severity: Severity) {
        self.list.push((field.into(), message.into(), severity));
    }

    pub(super) const fn is_sound(&self) -> bool {
        !self.unsound
    }

    pub(super) fn into_problems(
        self,
        origin: &Arc<str>,
        object: &str,
    ) -> impl Iterator<Item = Problem> {
        self.list
            .into_iter()
            .map(move |(field, message, severity)| Problem {
                origin: origin.to_string(),
                object: object.to_owned(),
                field,
                message,
                severity,
            })
    }
}
