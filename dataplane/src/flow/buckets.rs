//! Times counted by their magnitude, finely enough for quantiles: two places for each doubling.

/// Up to 2^32 µs, more than an hour.
const PLACES: usize = 64;

/// How many there were of each magnitude. Place n counts from 2^(n/2) µs up to the next place's; the last one also what is more.
#[derive(Clone, Debug)]
pub(crate) struct Buckets(Box<[u64; PLACES]>);

impl Default for Buckets {
    fn default() -> Self {
        Self(Box::new([0; PLACES]))
    }
}

impl Buckets {
    /// One more of `micros`.
    pub(crate) fn add(&mut self, micros: u64) {
        let place = place(micros);
        self.0[place] = self.0[place].saturating_add(1);
    }

    /// All places up to the last that is not zero.
    pub(crate) fn counts(&self) -> Vec<u64> {
        let used = self.0.iter().rposition(|count| *count > 0);
        used.map_or_else(Vec::new, |last| self.0[..=last].to_vec())
    }
}

fn place(micros: u64) -> usize {
    let micros = micros.max(1);
    let octave = micros.ilog2();
    // Past the half of an octave, on the logarithmic scale: x² ≥ 2^(2·octave + 1).
    let upper = u128::from(micros) * u128::from(micros) >= 1 << (2 * octave + 1);
    (2 * octave as usize + usize::from(upper)).min(PLACES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_places_for_each_doubling() {
        for (micros, expected) in [
            (0, 0),
            (1, 0),
            (2, 2),
            (3, 3),
            (4, 4),
            (5, 4),
            (6, 5),
            (1_000, 19),
            (u64::MAX, 63),
        ] {
            assert_eq!(place(micros), expected, "{micros}");
        }
        let mut buckets = Buckets::default();
        assert!(buckets.counts().is_empty());
        buckets.add(3);
        buckets.add(3);
        assert_eq!(buckets.counts(), [0, 0, 0, 2]);
    }
}
