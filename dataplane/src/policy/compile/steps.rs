//! Functions over points, that is over (protocol class, destination port).

use weft_proto::model::policy::IpProtocol;

use crate::bpf::types::protocol_class;

/// Ports of one protocol class.
const PORTS: u32 = 1 << 16;

/// The first point of a protocol's class.
pub(crate) const fn class_of(protocol: IpProtocol) -> u32 {
    let class = match protocol {
        IpProtocol::Tcp => protocol_class::CLASS_TCP,
        IpProtocol::Udp => protocol_class::CLASS_UDP,
        IpProtocol::Sctp => protocol_class::CLASS_SCTP,
        IpProtocol::Icmp => protocol_class::CLASS_ICMP,
    };
    class.0 << 16
}

/// Protocols that have ports.
pub(crate) const WITH_PORTS: [IpProtocol; 3] = [IpProtocol::Tcp, IpProtocol::Udp, IpProtocol::Sctp];

/// All points of a protocol's class, both ends included.
pub(crate) const fn points_of(protocol: IpProtocol) -> (u32, u32) {
    let first = class_of(protocol);
    (first, first + (PORTS - 1))
}

/// A function that is constant between its steps. The first step is at point 0, and neighbours differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Steps<T> {
    steps: Vec<(u32, T)>,
}

impl<T: Copy + Eq> Steps<T> {
    /// The same everywhere.
    pub(crate) fn constant(value: T) -> Self {
        Self {
            steps: vec![(0, value)],
        }
    }

    /// `inside` on these ranges (both ends included), `outside` elsewhere.
    pub(crate) fn on(mut ranges: Vec<(u32, u32)>, inside: T, outside: T) -> Self {
        ranges.sort_unstable();
        let mut steps = Self { steps: Vec::new() };
        let mut next = 0;
        for (first, last) in ranges {
            if first > next {
                steps.push(next, outside);
            }
            if last >= next {
                steps.push(first.max(next), inside);
                next = last.saturating_add(1);
            }
        }
        steps.push(next, outside);
        steps
    }

    /// The value if there is only one.
    pub(crate) fn as_constant(&self) -> Option<T> {
        match self.steps.as_slice() {
            [(_, value)] => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn map<U: Copy + Eq>(&self, f: impl Fn(T) -> U) -> Steps<U> {
        let mut result = Steps { steps: Vec::new() };
        for (first, value) in &self.steps {
            result.push(*first, f(*value));
        }
        result
    }

    /// Point by point.
    pub(crate) fn zip<U: Copy + Eq, V: Copy + Eq>(
        &self,
        other: &Steps<U>,
        f: impl Fn(T, U) -> V,
    ) -> Steps<V> {
        let mut result = Steps {
            steps: Vec::with_capacity(self.steps.len().max(other.steps.len())),
        };
        let (mut left, mut right) = (self.steps.as_slice(), other.steps.as_slice());
        while let ([(a, x), rest_left @ ..], [(b, y), rest_right @ ..]) = (left, right) {
            result.push(*a.max(b), f(*x, *y));
            let next_left = rest_left.first().map_or(u32::MAX, |(first, _)| *first);
            let next_right = rest_right.first().map_or(u32::MAX, |(first, _)| *first);
            if next_left <= next_right {
                left = rest_left;
            }
            if next_right <= next_left {
                right = rest_right;
            }
        }
        result
    }

    /// First point and value of each step.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, T)> + '_ {
        self.steps.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    fn push(&mut self, first: u32, value: T) {
        if self.steps.last().is_none_or(|(_, last)| *last != value) {
            self.steps.push((first, value));
        }
    }
}

#[cfg(test)]
impl<T: Copy + Eq> Steps<T> {
    pub(crate) fn at(&self, point: u32) -> T {
        let after = self.steps.partition_point(|(first, _)| *first <= point);
        self.steps[after - 1].1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<(u32, u32)>> {
        prop::collection::vec((0u32..50, 0u32..9), 0..6)
            .prop_map(|list| list.into_iter().map(|(a, n)| (a, a + n)).collect())
    }

    fn inside(ranges: &[(u32, u32)], point: u32) -> bool {
        ranges.iter().any(|(a, b)| (*a..=*b).contains(&point))
    }

    proptest! {
        #[test]
        fn are_the_functions_they_stand_for(a in ranges(), b in ranges()) {
            let (x, y) = (Steps::on(a.clone(), 1, 0), Steps::on(b.clone(), 2, 0));
            let both = x.zip(&y, |x, y| x + y);
            for steps in [&x, &y, &both] {
                prop_assert_eq!(steps.steps[0].0, 0);
                prop_assert!(steps.steps.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 != w[1].1));
            }
            for point in 0..70 {
                let sum = i32::from(inside(&a, point)) + 2 * i32::from(inside(&b, point));
                prop_assert_eq!(both.at(point), sum);
                prop_assert_eq!(both.map(|v| v > 1).at(point), sum > 1);
            }
        }
    }

    #[test]
    fn ends_of_the_range() {
        let all = Steps::on(vec![(0, u32::MAX)], true, false);
        assert!(all.at(7));
        assert_eq!(Steps::on(vec![], true, false).as_constant(), Some(false));
        assert_eq!(points_of(IpProtocol::Udp), (65_536, 131_071));
    }
}
