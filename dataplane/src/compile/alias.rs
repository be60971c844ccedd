//! Weighted random choice in one look-up: Vose's alias method (IEEE TSE 17(9), 1991), in integers.

use super::{Member, certain_slot};
use crate::tables::Slot;

/// One slot per member: a slot taken uniformly, then its backend or alias by threshold, hits each member by its weight.
///
/// Exact but for the rounding of each threshold to a multiple of 2^-32. Equal weights need no second choice at all.
pub(super) fn slots(members: &[Member]) -> Vec<Slot> {
    let count = members.len() as u64;
    let total: u64 = members.iter().map(|m| u64::from(m.weight.max(1))).sum();
    // In units of 1 / (count * total): a full slot is `total`.
    let mut share: Vec<u64> = members
        .iter()
        .map(|m| u64::from(m.weight.max(1)) * count)
        .collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..members.len()).partition(|i| share[*i] < total);
    let mut slots: Vec<Slot> = members.iter().map(|m| certain_slot(m.backend)).collect();
    while let (Some(poor), Some(rich)) = (small.pop(), large.last().copied()) {
        slots[poor].alias = members[rich].backend;
        slots[poor].threshold = threshold(share[poor], total);
        share[rich] -= total - share[poor];
        if share[rich] < total {
            large.pop();
            small.push(rich);
        }
    }
    slots
}

/// The kernel takes the first choice when a random u32 is at most this.
fn threshold(share: u64, total: u64) -> u32 {
    let (share, total) = (u128::from(share), u128::from(total));
    let of_2_32 = ((share << 32) + total / 2) / total;
    u32::try_from(of_2_32.saturating_sub(1)).unwrap_or(u32::MAX)
}
