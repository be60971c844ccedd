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
    /// No name before it.
    #[error("{0:?} names nothing: give NAMESPACE/NAME=SHARE, as in shop/cart=0.1")]
    Name(String),
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

/// A share of its own, for connections to one service or workload.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedRatio {
    /// "namespace/name" of the service, or of what runs the pods.
    pub name: String,
    /// Of connections to them.
    pub ratio: Ratio,
}

impl FromStr for NamedRatio {
    type Err = RatioError;

    fn from_str(given: &str) -> Result<Self, RatioError> {
        let unnamed = || RatioError::Name(given.to_owned());
        let (name, ratio) = given.rsplit_once('=').ok_or_else(unnamed)?;
        match name.split_once('/') {
            Some((namespace, of))
                if !namespace.is_empty() && !of.is_empty() && !of.contains('/') =>
            {
                Ok(Self {
                    name: name.to_owned(),
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
    rest: Share,
    workloads: BTreeMap<String, Share>,
    /// The largest first.
    services: Vec<(String, Share)>,
}

/// A [`Ratio`] as ids are compared with it.
#[derive(Clone, Debug)]
struct Share {
    /// Ids below it are left out.
    threshold: u64,
    /// The trace state of those that are not; `None`: there are none.
    state: Option<String>,
}

impl From<Ratio> for Share {
    fn from(ratio: Ratio) -> Self {
        let threshold = ratio.threshold();
        Self {
            threshold,
            state: (ratio.0 > 0.0).then(|| state(threshold)),
        }
    }
}

impl Sampling {
    /// By destination: `services` go before `workloads`, and `rest` is of all others.
    #[must_use]
    pub fn new(
        rest: Ratio,
        services: impl IntoIterator<Item = NamedRatio>,
        workloads: impl IntoIterator<Item = NamedRatio>,
    ) -> Self {
        let mut services: Vec<_> = services.into_iter().collect();
        services.sort_by(|a, b| b.ratio.0.total_cmp(&a.ratio.0));
        let share = |of: NamedRatio| (of.name, of.ratio.into());
        Self {
            rest: rest.into(),
            workloads: workloads.into_iter().map(share).collect(),
            services: services.into_iter().map(share).collect(),
        }
    }

    /// The trace state of a connection that is traced, `None` if it is not. `service`: the place of its destination's among
    /// [`Sampling::services`]; `workload`: its destination's, "namespace/name".
    pub(super) fn decide(
        &self,
        trace: [u8; 16],
        service: Option<usize>,
        workload: &str,
    ) -> Option<&str> {
        let service = service.and_then(|place| self.services.get(place));
        let share = match service {
            Some((_, share)) => share,
            None if self.workloads.is_empty() => &self.rest,
            None => self.workloads.get(workload).unwrap_or(&self.rest),
        };
        let random = u128::from_be_bytes(trace) as u64 & ((1 << RANDOM_BITS) - 1);
        let state = share.state.as_deref()?;
        (random >= share.threshold).then_some(state)
    }

    /// Those with a share of their own; where a destination is of several, the first one's holds.
    pub(super) fn services(&self) -> impl Iterator<Item = &str> {
        self.services.iter().map(|(name, _)| name.as_str())
    }

    /// The share of a service, "namespace/name", or of all that have none of their own: 0 to 1.
    #[must_use]
    pub fn share(&self, service: Option<&str>) -> f64 {
        let mut services = self.services.iter();
        let own = services.find(|(name, _)| Some(name.as_str()) == service);
        let share = own.map_or(&self.rest, |(_, share)| share);
        let left_out = share.threshold as f64 / (1_u64 << RANDOM_BITS) as f64;
        share.state.as_ref().map_or(0.0, |_| 1.0 - left_out)
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
        ids.filter(|id| sampling.decide(id.to_be_bytes(), None, workload).is_some())
            .count()
    }

    #[test]
    fn the_share_is_what_was_asked_for() {
        let rules = ["shop/cart=0.5", "shop/noise=0"].map(|r| r.parse().expect("a rule"));
        let sampling = Sampling::new(ratio("0.1"), [], rules);
        for (workload, wanted) in [("shop/cart", 5_000), ("a/b", 1_000), ("shop/noise", 0)] {
            let difference = taken(&sampling, workload).abs_diff(wanted);
            assert!(difference < 200, "{workload}: {difference}");
        }
        assert_eq!(taken(&Sampling::new(Ratio::ALL, [], []), ""), 10_000);
    }

    #[test]
    fn envoy_is_told_the_share_of_its_service_or_else_of_the_rest() {
        let services = ["shop/dear=1", "shop/mute=0"].map(|r| r.parse().expect("a rule"));
        let sampling = Sampling::new(ratio("0.25"), services, []);
        for (service, share) in [
            (Some("shop/dear"), 1.0),
            (Some("shop/mute"), 0.0),
            (Some("shop/other"), 0.25),
            (None, 0.25),
        ] {
            assert!(
                (sampling.share(service) - share).abs() < 1e-4,
                "{service:?}"
            );
        }
    }

    #[test]
    fn what_a_smaller_share_takes_a_larger_takes_too() {
        let [few, many] = ["0.2", "0.7"].map(|r| Sampling::new(ratio(r), [], []));
        for n in 0..1_000_u64 {
            let id = xxhash_rust::xxh3::xxh3_128(&n.to_be_bytes()).to_be_bytes();
            assert!(few.decide(id, None, "").is_none() || many.decide(id, None, "").is_some());
        }
    }

    #[test]
    fn the_threshold_is_written_as_collectors_read_it() {
        let all = [0xff; 16];
        for (share, state) in [
            ("1", Some("")),
            ("0.5", Some("ot=th:8")),
            ("0.25", Some("ot=th:c")),
            ("0.1", Some("ot=th:e666")),
            ("0", None),
        ] {
            assert_eq!(
                Sampling::new(ratio(share), [], []).decide(all, None, ""),
                state
            );
        }
    }

    #[test]
    fn a_service_goes_before_a_workload_and_the_larger_share_before_the_smaller() {
        let services = ["shop/dear=1", "shop/mute=0"].map(|r| r.parse().expect("a rule"));
        let workloads = ["shop/cart=0"].map(|r| r.parse().expect("a rule"));
        let sampling = Sampling::new(Ratio::ALL, services, workloads);
        let names: Vec<_> = sampling.services().collect();
        assert_eq!(names, ["shop/dear", "shop/mute"]);
        let decided = |service| sampling.decide([0xff; 16], service, "shop/cart").is_some();
        assert_eq!([Some(0), Some(1), None].map(decided), [true, false, false]);
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for wrong in ["", "2", "-0.1", "NaN", "x"] {
            assert!(wrong.parse::<Ratio>().is_err(), "{wrong}");
        }
        for wrong in ["0.5", "cart=0.5", "/x=1", "a/=1", "a/b/c=1", "a/b=2"] {
            assert!(wrong.parse::<NamedRatio>().is_err(), "{wrong}");
        }
    }
}
