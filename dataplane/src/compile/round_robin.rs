//! Weighted round robin: the sequence that the kernel walks.

use super::turns::Turns;

/// A sequence is at most this long, or as long as there are members.
pub const SEQUENCE_BOUND: usize = 4_096;

/// Indices of members, each as often as its weight says and evenly interleaved.
///
/// As short as the weights divided by their greatest common divisor allow. Where even that is over [`SEQUENCE_BOUND`] and over
/// the number of members, weights are rounded to shares of that bound: at least 1 each, the rest by largest remainder, so that a
/// member's share is off by less than one place, or is the one place that everybody gets.
pub(super) fn sequence(weights: &[u32]) -> Vec<u32> {
    let bound = SEQUENCE_BOUND.max(weights.len()) as u64;
    let divisor = weights.iter().copied().fold(0, gcd).max(1);
    let mut reduced: Vec<u32> = weights.iter().map(|w| w / divisor).collect();
    if sum(&reduced) > bound {
        reduced = apportion(&reduced, bound);
    }
    let length = usize::try_from(sum(&reduced)).unwrap_or(usize::MAX);
    Turns::new(&reduced).take(length).collect()
}

fn sum(weights: &[u32]) -> u64 {
    weights.iter().map(|w| u64::from(*w)).sum()
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `bound` places shared out by weight, one at least to each; `bound` is no less than the number of weights.
fn apportion(weights: &[u32], bound: u64) -> Vec<u32> {
    let mut places = vec![0u32; weights.len()];
    let (mut left, mut total) = (bound, sum(weights));
    // Who deserves at most one place gets it; that leaves less for the others, so look again.
    loop {
        let poor: Vec<usize> = (0..weights.len())
            .filter(|i| places[*i] == 0 && u64::from(weights[*i]) * left <= total)
            .collect();
        if poor.is_empty() {
            break;
        }
        for index in poor {
            places[index] = 1;
            left -= 1;
            total -= u64::from(weights[index]);
        }
    }
    largest_remainder(weights, &mut places, left, total);
    places
}

/// Shares `left` places out among those who have none.
fn largest_remainder(weights: &[u32], places: &mut [u32], left: u64, total: u64) {
    let mut remainders = Vec::new();
    let mut given = 0;
    for index in (0..weights.len())
        .filter(|i| places[*i] == 0)
        .collect::<Vec<_>>()
    {
        let exact = u64::from(weights[index]) * left;
        let whole = exact / total;
        given += whole;
        places[index] = u32::try_from(whole).unwrap_or(u32::MAX);
        remainders.push((exact % total, index));
    }
    remainders.sort_by_key(|(remainder, index)| (std::cmp::Reverse(*remainder), *index));
    let rest = usize::try_from(left - given).unwrap_or(0);
    for (_, index) in remainders.into_iter().take(rest) {
        places[index] += 1;
    }
}
