//! Whether a spread is what it should be, with a bound that chance crosses once in a billion runs.

use std::collections::BTreeMap;

use weft_lab::probe::Attempt;

/// How often a test may fail although nothing is wrong.
const CHANCE: f64 = 1e-9;

/// Answers by server. Panics on a failed attempt: the tests that use this expect none.
///
/// # Panics
/// When an attempt has no answer.
#[allow(clippy::panic)]
#[must_use]
pub fn by_server(attempts: &[Attempt]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for attempt in attempts {
        match (&attempt.server, attempt.ok()) {
            (Some(server), true) => *counts.entry(server.clone()).or_default() += 1,
            _ => panic!("no answer: {attempt:?}"),
        }
    }
    counts
}

/// Fails unless `counts` can be a random draw with these weights (Pearson's chi-square test at p = 1e-9).
///
/// # Panics
/// When it cannot, or a server appears that has no weight.
pub fn assert_spread(counts: &BTreeMap<String, u64>, weights: &[(&str, f64)]) {
    let total: u64 = counts.values().sum();
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let unexpected = counts
        .keys()
        .find(|name| !weights.iter().any(|(w, _)| w == name));
    assert!(
        unexpected.is_none(),
        "answer from {unexpected:?}: {counts:?}"
    );
    let statistic: f64 = weights
        .iter()
        .map(|(name, weight)| {
            let expected = total as f64 * weight / sum;
            assert!(expected >= 5.0, "too few requests to judge {name}: {total}");
            let seen = counts.get(*name).copied().unwrap_or_default() as f64;
            (seen - expected).powi(2) / expected
        })
        .sum();
    let bound = chi_square_bound(weights.len() - 1);
    assert!(
        statistic <= bound,
        "{counts:?} is not a draw with weights {weights:?}: chi-square {statistic:.1} > {bound:.1}"
    );
}

/// As [`assert_spread`] with equal weights.
///
/// # Panics
/// As there.
pub fn assert_even(counts: &BTreeMap<String, u64>, servers: &[&str]) {
    let weights: Vec<(&str, f64)> = servers.iter().map(|name| (*name, 1.0)).collect();
    assert_spread(counts, &weights);
}

/// What a chi-square variable of so many degrees of freedom exceeds with probability [`CHANCE`]. An odd number is rounded up,
/// which errs on the side of chance: the survival function of an even one is a finite sum.
fn chi_square_bound(degrees: usize) -> f64 {
    let terms = degrees.max(1).div_ceil(2);
    let survival = |x: f64| -> f64 {
        let mut term = (-x / 2.0).exp();
        let mut sum = term;
        for i in 1..terms {
            term *= x / 2.0 / i as f64;
            sum += term;
        }
        sum
    };
    let (mut low, mut high) = (0.0, 1000.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if survival(middle) > CHANCE {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(&str, u64)]) -> BTreeMap<String, u64> {
        list.iter()
            .map(|(name, n)| ((*name).to_owned(), *n))
            .collect()
    }

    #[test]
    fn the_bound_is_that_of_tables() {
        // Upper quantiles at 1e-9: 41.45 with two degrees of freedom, 47.88 with four.
        for (degrees, bound) in [(1, 41.45), (2, 41.45), (4, 47.88)] {
            let computed = chi_square_bound(degrees);
            assert!((computed - bound).abs() < 0.01, "{degrees}: {computed}");
        }
    }

    #[test]
    fn takes_chance_and_refuses_bias() {
        assert_even(&counts(&[("a", 480), ("b", 520)]), &["a", "b"]);
        let biased = std::panic::catch_unwind(|| {
            assert_even(&counts(&[("a", 350), ("b", 650)]), &["a", "b"]);
        });
        assert!(biased.is_err());
        let starved = std::panic::catch_unwind(|| assert_even(&counts(&[("a", 100)]), &["a", "b"]));
        assert!(starved.is_err());
    }

    #[test]
    fn weights_count() {
        assert_spread(
            &counts(&[("a", 740), ("b", 260)]),
            &[("a", 3.0), ("b", 1.0)],
        );
        let even = std::panic::catch_unwind(|| {
            assert_spread(
                &counts(&[("a", 500), ("b", 500)]),
                &[("a", 3.0), ("b", 1.0)],
            );
        });
        assert!(even.is_err());
    }
}
