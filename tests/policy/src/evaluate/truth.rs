//! Logic with a third value, for what only a proxy can see (Kleene's strong logic).

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Truth {
    /// It does not.
    False,
    /// It depends on layer 7.
    Unknown,
    /// It does.
    True,
}

impl Truth {
    /// True if all are, false if one is.
    pub fn all(conditions: impl IntoIterator<Item = Self>) -> Self {
        conditions.into_iter().min().unwrap_or(Self::True)
    }

    /// True if one is, false if all are.
    pub fn any(conditions: impl IntoIterator<Item = Self>) -> Self {
        conditions.into_iter().max().unwrap_or(Self::False)
    }
}

impl std::ops::Not for Truth {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            Self::False => Self::True,
            Self::Unknown => Self::Unknown,
            Self::True => Self::False,
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}
