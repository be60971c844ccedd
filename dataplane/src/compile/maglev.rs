//! Maglev's lookup table (Eisenbud et al., NSDI 2016, section 3.4), with weights.

use std::net::{IpAddr, SocketAddr};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::turns::Turns;
use super::{Member, weights};

/// Primes near the powers of two.
const SIZES: [u32; 10] = [
    251, 509, 1_021, 2_039, 4_093, 8_191, 16_381, 32_749, 65_521, 131_071,
];

/// Slots for this many members: 100 for each, as the paper wants for shares within 1 % of each other, but at most 131,071.
///
/// Past 131,071 members some get no slot.
#[must_use]
pub fn table_size(members: usize) -> u32 {
    let wanted = members.saturating_mul(100);
    let largest = SIZES[SIZES.len() - 1];
    SIZES
        .into_iter()
        .find(|size| *size as usize >= wanted)
        .unwrap_or(largest)
}

/// For each slot the index of its member. Members take turns by weight; each turn takes the first free slot of the member's
/// own permutation, which depends on its address alone: when one goes, the others' slots mostly stay.
pub(super) fn table(members: &[Member]) -> Vec<u32> {
    const FREE: u32 = u32::MAX;
    if members.is_empty() {
        return Vec::new();
    }
    let size = table_size(members.len());
    let mut preferences: Vec<Preference> =
        members.iter().map(|m| Preference::of(m, size)).collect();
    let mut table = vec![FREE; size as usize];
    let weights = weights(members);
    for index in Turns::new(&weights).take(size as usize) {
        let preference = &mut preferences[index as usize];
        // Every permutation visits every slot, and fewer turns than slots have been taken: there is a free one.
        while table[preference.place as usize] != FREE {
            preference.advance(size);
        }
        table[preference.place as usize] = index;
    }
    table
}

/// A member's walk through the table, `offset + i * skip mod size`.
struct Preference {
    place: u32,
    skip: u32,
}

impl Preference {
    fn of(member: &Member, size: u32) -> Self {
        let bytes = bytes(member.address);
        let below = |seed: u64, bound: u32| {
            u32::try_from(xxh3_64_with_seed(&bytes, seed) % u64::from(bound)).unwrap_or(0)
        };
        Self {
            place: below(0, size),
            skip: below(1, size - 1) + 1,
        }
    }

    fn advance(&mut self, size: u32) {
        // No overflow: both are below 2^17.
        self.place = (self.place + self.skip) % size;
    }
}

fn bytes(address: SocketAddr) -> [u8; 18] {
    let ip = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}
