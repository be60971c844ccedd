//! Which connections are traced. All nodes decide alike, as they decide by the trace's id: W3C trace context, level 2, with the
//! threshold in the trace state as OpenTelemetry's consistent probability sampling writes it.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Bits of a trace id that are random: its last seven bytes.
const RANDOM_BITS: u32 = 56;
/// Digits of a threshold that are written: finer differences do not matter.
const DIGITS: usize = 4;

/// A share of connections, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio(f64);

/// No share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RatioError {
    /// No number from 0 to 1.
    #[error("{0:?} is no share: give a number from 0 to 1, as in 0.1")]
    Share(String),
    /// No workload before it.
    #[error("{0:?} names no workload: give NAMESPACE/WORKLOAD=SHARE, as in shop/cart=0.1")]
    Workload(String),
}

impl Ratio {
    /// All connections.
    pub const ALL: Self = Self(1.0);

    /// Ids below it are left out, of 2^56.
    fn threshold(self) -> u64 {
        let all = (1_u64 << RANDOM_BITS) as f64;
        // In whole units of what is written, so that what is done is what is said.
        let unit = 1_u64 << (RANDOM_BITS as usize - 4 * DIGITS);
        ((1.0 - self.0) * all) as u64 / unit * unit
    }
}

impl FromStr for Ratio {
    type Err = RatioError;

    fn from_str(given: &str) -> Result<Self, RatioError> {
        let share = given.parse().ok().filter(|n| (0.0..=1.0).contains(n));
        share
            .map(Self)
            .ok_or_else(|| RatioError::Share(given.to_owned()))
    }
}

/// A share of its own for connections to one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadRatio {
    /// "namespace/name" of what runs the pods.
    pub workload: String,
    /// Of connections to them.
    pub ratio: Ratio,
}

impl FromStr for WorkloadRatio {
    type Err = RatioError;

    fn from_str(given: &str) -> Result<Self, RatioError> {
        let unnamed = || RatioError::Workload(given.to_owned());
        let (workload, ratio) = given.rsplit_once('=').ok_or_else(unnamed)?;
        match workload.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    workload: workload.to_owned(),
                    ratio: ratio.parse()?,
                })
            }
            _ => Err(unnamed()),
        }
    }
}

/// Shares of connections that are traced. What was refused or failed always is.
#[derive(Clone, Debug)]
pub struct Sampling {
    rest: Ratio,
    workloads: BTreeMap<String, Ratio>,
}

impl Sampling {
    /// `workloads` by destination, `rest` of all others.
    #[must_use]
    pub fn new(rest: Ratio, workloads: impl IntoIterator<Item = WorkloadRatio>) -> Self {
        let workloads = workloads.into_iter().map(|w| (w.workload, w.ratio));
        Self {
            rest,
            workloads: workloads.collect(),
        }
    }

    /// The trace state of a connection that is traced, `None` if it is not. `workload`: its destination's, "namespace/name".
    pub(super) fn decide(&self, trace: [u8; 16], workload: &str) -> Option<String> {
        let ratio = match self.workloads.is_empty() {
            true => self.rest,
            false => *self.workloads.get(workload).unwrap_or(&self.rest),
        };
        let threshold = ratio.threshold();
        let random = u128::from_be_bytes(trace) as u64 & ((1 << RANDOM_BITS) - 1);
        let traced = ratio.0 > 0.0 && random >= threshold;
        traced.then(|| state(threshold))
    }

    /// Of all but the workloads that have a share of their own, 0 to 1.
    #[must_use]
    pub const fn share(&self) -> f64 {
        self.rest.0
    }

    /// Whether the destination's workload matters.
    pub(super) fn by_workload(&self) -> bool {
        !self.workloads.is_empty()
    }
}

/// Empty where all are taken: nothing has to be scaled then.
fn state(threshold: u64) -> String {
    if threshold == 0 {
        return String::new();
    }
    let digits = format!("{threshold:014x}");
    format!("ot=th:{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(share: &str) -> Ratio {
        share.parse().expect("a share")
    }

    fn taken(sampling: &Sampling, workload: &str) -> usize {
        let ids = (0..10_000_u64).map(|n| xxhash_rust::xxh3::xxh3_128(&n.to_be_bytes()));
        ids.filter(|id| sampling.decide(id.to_be_bytes(), workload).is_some())
            .count()
    }

    #[test]
    fn the_share_is_what_was_asked_for() {
        let rules = ["shop/cart=0.5", "shop/noise=0"].map(|r| r.parse().expect("a rule"));
        let sampling = Sampling::new(ratio("0.1"), rules);
        for (workload, wanted) in [("shop/cart", 5_000), ("a/b", 1_000), ("shop/noise", 0)] {
            let difference = taken(&sampling, workload).abs_diff(wanted);
            assert!(difference < 200, "{workload}: {difference}");
        }
        assert_eq!(taken(&Sampling::new(Ratio::ALL, []), ""), 10_000);
    }

    #[test]
    fn what_a_smaller_share_takes_a_larger_takes_too() {
        let [few, many] = ["0.2", "0.7"].map(|r| Sampling::new(ratio(r), []));
        for n in 0..1_000_u64 {
            let id = xxhash_rust::xxh3::xxh3_128(&n.to_be_bytes()).to_be_bytes();
            assert!(few.decide(id, "").is_none() || many.decide(id, "").is_some());
        }
    }

    #[test]
    fn the_threshold_is_written_as_collectors_read_it() {
        let all = [0xff; 16];
        let state = |share| Sampling::new(ratio(share), []).decide(all, "");
        assert_eq!(state("1").as_deref(), Some(""));
        assert_eq!(state("0.5").as_deref(), Some("ot=th:8"));
        assert_eq!(state("0.25").as_deref(), Some("ot=th:c"));
        assert_eq!(state("0.1").as_deref(), Some("ot=th:e666"));
        assert_eq!(state("0"), None);
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for wrong in ["", "2", "-0.1", "NaN", "x"] {
            assert!(wrong.parse::<Ratio>().is_err(), "{wrong}");
        }
        for wrong in ["0.5", "cart=0.5", "/x=1", "a/=1", "a/b/c=1", "a/b=2"] {
            assert!(wrong.parse::<WorkloadRatio>().is_err(), "{wrong}");
        }
    }
}
