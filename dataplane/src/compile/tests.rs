use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use weft_proto::model::{Health, LbPolicy, Locality, LocalityMode};

use super::*;

fn members(weights: &[u32]) -> Vec<Member> {
    (1u32..)
        .zip(weights)
        .map(|(id, weight)| Member {
            backend: BackendId(id),
            address: SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + id), 80)),
            weight: *weight,
        })
        .collect()
}

/// Probability of each backend, in units of 1 / (slots * 2^32).
fn alias_shares(slots: &[Slot]) -> HashMap<BackendId, u128> {
    let mut shares = HashMap::new();
    for slot in slots {
        let first = u128::from(slot.threshold) + 1;
        *shares.entry(slot.backend).or_default() += first;
        *shares.entry(slot.alias).or_default() += (1u128 << 32) - first;
    }
    shares
}

fn counts(slots: &[Slot]) -> HashMap<BackendId, usize> {
    let mut counts = HashMap::new();
    for slot in slots {
        assert_eq!((slot.alias, slot.threshold), (slot.backend, u32::MAX));
        *counts.entry(slot.backend).or_default() += 1;
    }
    counts
}

#[test]
fn nothing_to_choose_from_gives_no_slots() {
    for policy in [
        LbPolicy::Random,
        LbPolicy::RoundRobin,
        LbPolicy::LeastRequest,
        LbPolicy::Maglev,
    ] {
        assert!(slots(policy, &[]).is_empty(), "{policy:?}");
    }
}

#[test]
fn equal_weights_need_one_certain_slot_each() {
    for weight in [1, 7, u32::MAX] {
        let found = counts(&slots(LbPolicy::Random, &members(&[weight; 50])));
        assert_eq!(found.len(), 50);
        assert!(found.values().all(|n| *n == 1));
    }
}

proptest! {
    #[test]
    fn alias_slots_hit_each_member_by_its_weight(
        weights in prop::collection::vec(prop_oneof![1u32..10, 1u32.., Just(u32::MAX)], 1..200),
    ) {
        let members = members(&weights);
        let slots = slots(LbPolicy::Random, &members);
        prop_assert_eq!(slots.len(), members.len());
        let shares = alias_shares(&slots);
        let total: u128 = weights.iter().map(|w| u128::from(*w)).sum();
        let whole = (slots.len() as u128) << 32;
        prop_assert_eq!(shares.values().sum::<u128>(), whole);
        for member in &members {
            let exact = whole * u128::from(member.weight) / total;
            let got = shares.get(&member.backend).copied().unwrap_or(0);
            // Each slot rounds by at most one half, and nobody is lost.
            prop_assert!(got.abs_diff(exact) <= slots.len() as u128, "{got} for {exact}");
            prop_assert!(got > 0);
        }
    }

    #[test]
    fn round_robin_is_exact_and_shortest_where_it_fits(
        weights in prop::collection::vec(1u32..50, 1..60),
        factor in 1u32..1000,
    ) {
        let scaled: Vec<u32> = weights.iter().map(|w| w * factor).collect();
        let found = slots(LbPolicy::RoundRobin, &members(&scaled));
        let gcd = (1..50).rev().find(|d| weights.iter().all(|w| w % d == 0)).unwrap_or(1);
        let counts = counts(&found);
        for (id, weight) in (1u32..).zip(&weights) {
            prop_assert_eq!(counts[&BackendId(id)], (weight / gcd) as usize);
        }
    }

    #[test]
    fn round_robin_is_bounded_and_close_where_it_must_round(
        weights in prop::collection::vec(prop_oneof![1u32..100, 100_000u32..u32::MAX], 1..300),
    ) {
        let found = slots(LbPolicy::RoundRobin, &members(&weights));
        prop_assert!(found.len() <= SEQUENCE_BOUND);
        let counts = counts(&found);
        let total: f64 = weights.iter().map(|w| f64::from(*w)).sum();
        for (id, weight) in (1u32..).zip(&weights) {
            let exact = f64::from(*weight) / total * found.len() as f64;
            let got = counts[&BackendId(id)] as f64;
            // The places given away as minimum come off the others in proportion.
            prop_assert!(got >= 1.0 && got <= exact.max(0.0) + 1.0, "{got} for {exact}");
            prop_assert!(got >= exact * (1.0 - 300.0 / 4096.0) - 1.0, "{got} for {exact}");
        }
    }

    #[test]
    fn maglev_shares_follow_weights(weights in prop::collection::vec(1u32..20, 1..40)) {
        let members = members(&weights);
        let table = slots(LbPolicy::Maglev, &members);
        prop_assert_eq!(table.len() as u32, maglev_table_size(members.len()));
        let counts = counts(&table);
        let total: u32 = weights.iter().sum();
        for member in &members {
            let exact = table.len() as f64 * f64::from(member.weight) / f64::from(total);
            let got = counts.get(&member.backend).copied().unwrap_or(0) as f64;
            prop_assert!((got - exact).abs() <= 1.5, "{got} for {exact}");
        }
    }
}

#[test]
fn round_robin_interleaves() {
    let found = slots(LbPolicy::RoundRobin, &members(&[4, 2, 2]));
    let ids: Vec<u32> = found.iter().map(|s| s.backend.0).collect();
    assert_eq!(ids, [1, 2, 3, 1]);
    let found = slots(LbPolicy::RoundRobin, &members(&[1, 5]));
    let ids: Vec<u32> = found.iter().map(|s| s.backend.0).collect();
    assert_eq!(ids, [2, 2, 1, 2, 2, 2]);
}

#[test]
fn maglev_moves_few_clients_when_one_of_twenty_goes() {
    let all = members(&[1; 20]);
    let before = slots(LbPolicy::Maglev, &all);
    for gone in 0..all.len() {
        let mut rest = all.clone();
        let lost = rest.remove(gone).backend;
        let after = slots(LbPolicy::Maglev, &rest);
        // The paper accepts a little more than the 1/20 that has to move.
        assert_eq!(before.len(), after.len(), "one table size on both sides");
        let moved = before
            .iter()
            .zip(&after)
            .filter(|(b, a)| b.backend != lost && b.backend != a.backend)
            .count();
        let share = moved as f64 / before.len() as f64;
        assert!(share < 0.06, "{share} of the others' slots moved");
    }
}

#[test]
fn a_hundred_thousand_endpoints_compile_in_no_time() {
    let mixed: Vec<u32> = (0..100_000).map(|i| 1 + i % 7).collect();
    let members = members(&mixed);
    // The bound is for optimized code; without optimization it only guards against the quadratic.
    let bound = match cfg!(debug_assertions) {
        true => Duration::from_secs(5),
        false => Duration::from_millis(100),
    };
    for policy in [LbPolicy::Random, LbPolicy::RoundRobin, LbPolicy::Maglev] {
        let began = Instant::now();
        assert!(slots(policy, &members).len() >= members.len());
        let took = began.elapsed();
        assert!(took < bound, "{policy:?} took {took:?}");
    }
}

struct Seen {
    health: Health,
    priority: u8,
    node: &'static str,
    zone: &'static str,
}

fn endpoints(seen: &[Seen]) -> Vec<NodeEndpoint> {
    (1u32..)
        .zip(seen)
        .map(|(id, s)| NodeEndpoint {
            address: SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + id), 80)),
            weight: 1,
            priority: s.priority,
            health: s.health,
            locality: Arc::new(Locality {
                zone: s.zone.to_owned(),
                node: s.node.to_owned(),
            }),
        })
        .collect()
}

fn e(health: Health, priority: u8, node: &'static str, zone: &'static str) -> Seen {
    Seen {
        health,
        priority,
        node,
        zone,
    }
}

/// Which of them, counted from 1, take connections seen from node "here" in zone "z1".
fn chosen(seen: &[Seen], mode: LocalityMode) -> Vec<usize> {
    let all = endpoints(seen);
    let here = Here {
        node: "here".to_owned(),
        zone: "z1".to_owned(),
    };
    select(&all, Family::V4, mode, &here)
        .iter()
        .map(|e| {
            1 + all
                .iter()
                .position(|a| a.address == e.address)
                .unwrap_or(99)
        })
        .collect()
}

#[test]
fn healthy_before_draining_before_nothing() {
    use Health::{Draining as D, Healthy as H, Unhealthy as U};
    use LocalityMode::None as Any;
    let one = |health| e(health, 0, "", "");
    assert_eq!(chosen(&[one(H), one(D), one(U), one(H)], Any), [1, 4]);
    assert_eq!(chosen(&[one(D), one(U)], Any), [1]);
    assert!(chosen(&[one(U)], Any).is_empty());
    // Healthy at any level before draining at any.
    let levels = [
        e(D, 0, "", ""),
        e(H, 2, "", ""),
        e(H, 1, "", ""),
        e(U, 0, "", ""),
    ];
    assert_eq!(chosen(&levels, Any), [3]);
    let levels = [e(U, 0, "", ""), e(D, 2, "", ""), e(D, 1, "", "")];
    assert_eq!(chosen(&levels, Any), [3]);
}

#[test]
fn near_ones_are_preferred_while_they_are_healthy() {
    use Health::{Draining as D, Healthy as H};
    use LocalityMode::{NodeOnly, PreferNode, PreferZone};
    let mixed = [
        e(H, 0, "here", "z1"),
        e(H, 0, "there", "z1"),
        e(H, 0, "far", "z2"),
    ];
    assert_eq!(chosen(&mixed, PreferNode), [1]);
    assert_eq!(chosen(&mixed, PreferZone), [1, 2]);
    assert_eq!(chosen(&mixed, NodeOnly), [1]);
    // A near one that drains does not hold clients back from healthy ones elsewhere, unless it must.
    let draining = [e(D, 0, "here", "z1"), e(H, 0, "far", "z2")];
    assert_eq!(chosen(&draining, PreferNode), [2]);
    assert_eq!(chosen(&draining, PreferZone), [2]);
    assert_eq!(chosen(&draining, NodeOnly), [1]);
    assert!(chosen(&[e(H, 0, "far", "z1")], NodeOnly).is_empty());
}

#[test]
fn unknown_places_are_nowhere() {
    let all = endpoints(&[e(Health::Healthy, 0, "", "")]);
    let nowhere = Here::default();
    assert!(select(&all, Family::V4, LocalityMode::NodeOnly, &nowhere).is_empty());
    assert_eq!(
        select(&all, Family::V4, LocalityMode::PreferZone, &nowhere).len(),
        1
    );
    assert!(select(&all, Family::V6, LocalityMode::None, &nowhere).is_empty());
}
