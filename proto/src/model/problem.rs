//! What an operator has to mend.

use std::fmt;

/// How bad a [`Problem`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The object, or the named part of it, is not in effect.
    Error,
    /// In effect, but not in every way the author may expect.
    Warning,
}

/// Something in the cluster's objects that could not be used, named down to the field.
///
/// Wire form: `weft.status.v1.Problem`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Problem {
    /// File and line ("shop.yaml:12"), or empty.
    pub origin: String,
    /// "Service shop/cart", or empty.
    pub object: String,
    /// "spec.ports[0].port", or empty.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
    /// Whether anything is lost.
    pub severity: Severity,
}

impl Problem {
    /// Resource name: the same problem always has the same one.
    #[must_use]
    pub fn name(&self) -> String {
        format!(
            "{}#{}#{}#{}",
            self.origin, self.object, self.field, self.message
        )
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.origin, &self.object, &self.field] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        f.write_str(&self.message)
    }
}
