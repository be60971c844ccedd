//! Quantiles of times that were counted by their magnitude.

/// Median and 95th percentile, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
}

impl Quantiles {
    /// `None`: nothing was counted. `places[n]` is how many there were from 2^(n/2) µs up to the next place's.
    pub(crate) fn of(places: &[u64]) -> Option<Self> {
        let total: u64 = places.iter().sum();
        (total > 0).then(|| Self {
            p50: quantile(places, total, 0.5),
            p95: quantile(places, total, 0.95),
        })
    }
}

/// The geometric middle of the place in which it is: at most a fifth off.
fn quantile(places: &[u64], total: u64, share: f64) -> f64 {
    let rank = (total as f64 * share).ceil().max(1.0) as u64;
    let mut below = 0;
    let place = places.iter().position(|count| {
        below += count;
        below >= rank
    });
    2_f64.powf((place.unwrap_or_default() as f64 + 0.5) / 2.0)
}
