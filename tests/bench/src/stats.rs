//! Medians and spreads.

use crate::peer::Buckets;

/// Middle and ends of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Lowest.
    pub min: f64,
    /// A quarter lies below.
    pub lower: f64,
    /// Median.
    pub median: f64,
    /// A quarter lies above.
    pub upper: f64,
    /// Highest.
    pub max: f64,
}

impl Spread {
    /// Of at least one sample.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let sorted = sorted(samples);
        Some(Self {
            min: *sorted.first()?,
            lower: quantile(&sorted, 0.25)?,
            median: median(&sorted)?,
            upper: quantile(&sorted, 0.75)?,
            max: *sorted.last()?,
        })
    }
}

/// The value below which `quantile` (0 to 1) of the samples lie, nearest rank.
pub fn quantile(samples: &[f64], quantile: f64) -> Option<f64> {
    let sorted = sorted(samples.iter().copied());
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// The upper bound of the bucket that holds `quantile` of what `after` has more
/// than `before`, seconds.
pub fn bucket_quantile(before: &Buckets, after: &Buckets, quantile: f64) -> Option<f64> {
    let grown: Vec<(f64, u64)> = after
        .iter()
        .map(|(bound, count)| {
            let had = before
                .iter()
                .find(|(known, _)| known == bound)
                .map_or(0, |(_, c)| *c);
            (*bound, count.saturating_sub(had))
        })
        .collect();
    let total = grown
        .last()
        .map(|(_, count)| *count)
        .filter(|count| *count > 0)?;
    let rank = (quantile * total as f64).ceil().max(1.0) as u64;
    grown
        .iter()
        .find(|(_, count)| *count >= rank)
        .map(|(bound, _)| *bound)
}

fn sorted(samples: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    let odd = sorted.len() % 2 == 1;
    Some(if odd {
        upper
    } else {
        f64::midpoint(upper, *sorted.get(middle.checked_sub(1)?)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]);
        let expected = Spread {
            min: 1.0,
            lower: 1.0,
            median: 2.5,
            upper: 3.0,
            max: 4.0,
        };
        assert_eq!(spread, Some(expected));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn quantiles_are_samples() {
        let samples: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&samples, 0.5), Some(50.0));
        assert_eq!(quantile(&samples, 0.99), Some(99.0));
        assert_eq!(quantile(&samples[..10], 0.99), Some(10.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn bucket_quantiles_look_at_growth_only() {
        let before = vec![(0.001, 50), (0.01, 50), (f64::INFINITY, 50)];
        let after = vec![(0.001, 50), (0.01, 149), (f64::INFINITY, 150)];
        assert_eq!(bucket_quantile(&before, &after, 0.99), Some(0.01));
        assert_eq!(bucket_quantile(&before, &after, 1.0), Some(f64::INFINITY));
        assert_eq!(bucket_quantile(&before, &before, 0.5), None);
    }
}
