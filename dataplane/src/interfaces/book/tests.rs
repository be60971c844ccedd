use super::*;
use crate::interfaces::snapshot::{Kind, index};

fn at(number: u32) -> InterfaceIndex {
    index(number).expect("not 0")
}

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn wanted(pods: &[(&str, u8)]) -> WantedPods {
    WantedPods {
        addresses: pods
            .iter()
            .map(|(name, last)| (address(*last), (*name).to_owned()))
            .collect(),
        complete: true,
        ..WantedPods::default()
    }
}

fn interfaces(numbers: &[u32]) -> BTreeMap<InterfaceIndex, Interface> {
    let interface = |number: &u32| Interface {
        name: format!("veth{number}"),
        kind: Kind::Other,
        lower: None,
        peer_netns: None,
        ethernet: true,
        mtu: 1500,
        address: None,
    };
    numbers.iter().map(|n| (at(*n), interface(n))).collect()
}

type Look = Result<InterfaceIndex, Missing>;

fn looked(results: &[(u8, Look)]) -> BTreeMap<IpAddr, Look> {
    let results = results.iter().cloned();
    results.map(|(last, look)| (address(last), look)).collect()
}

fn lost() -> Look {
    Err(Missing::NoRoute)
}

#[test]
fn what_was_found_outlives_the_kernels_memory_but_not_its_interface() {
    let (mut book, now) = (Book::default(), Instant::now());
    let wanted = wanted(&[("a", 1)]);
    book.enter(&wanted, &interfaces(&[5]), looked(&[(1, Ok(at(5)))]), now);
    book.enter(&wanted, &interfaces(&[5]), looked(&[(1, lost())]), now);
    assert_eq!(book.pods(&wanted), BTreeMap::from([(address(1), at(5))]));
    assert!(book.is_complete());

    book.enter(&wanted, &interfaces(&[]), looked(&[(1, lost())]), now);
    assert!(book.pods(&wanted).is_empty());
    assert!(!book.is_complete());
    book.enter(&wanted, &interfaces(&[6]), looked(&[(1, Ok(at(6)))]), now);
    assert!(book.is_complete());
    book.enter(
        &wanted,
        &interfaces(&[6, 7]),
        looked(&[(1, Ok(at(7)))]),
        now,
    );
    assert_eq!(book.pods(&wanted)[&address(1)], at(7), "it moved");
}

#[test]
fn an_address_that_is_not_wanted_any_more_is_forgotten() {
    let (mut book, now) = (Book::default(), Instant::now());
    let both = looked(&[(1, Ok(at(5))), (2, lost())]);
    book.enter(&wanted(&[("a", 1), ("b", 2)]), &interfaces(&[5]), both, now);
    book.enter(&wanted(&[]), &interfaces(&[5]), looked(&[]), now);
    assert!(book.interfaces().is_empty());
    assert!(book.is_complete());
}

#[test]
fn an_interface_of_two_workloads_is_neithers_and_keeps_its_programs() {
    let (mut book, now) = (Book::default(), Instant::now());
    let both = wanted(&[("a", 1), ("b", 2)]);
    let found = looked(&[(1, Ok(at(5))), (2, Ok(at(5)))]);
    book.enter(&both, &interfaces(&[5]), found, now);
    assert!(book.pods(&both).is_empty());
    assert_eq!(book.interfaces(), BTreeSet::from([at(5)]));
    // Two addresses of one workload are as it should be.
    let one = wanted(&[("a", 1), ("a", 2)]);
    assert_eq!(book.pods(&one).len(), 2);
}

#[test]
fn absence_is_counted_from_its_first_look() {
    let (mut book, start) = (Book::default(), Instant::now());
    let wanted = wanted(&[("a", 1)]);
    let later = start + std::time::Duration::from_secs(5);
    book.enter(&wanted, &interfaces(&[]), looked(&[(1, lost())]), start);
    let elsewhere = Missing::Elsewhere("eth0".into());
    book.enter(
        &wanted,
        &interfaces(&[]),
        looked(&[(1, Err(elsewhere.clone()))]),
        later,
    );
    assert_eq!(book.missing()[&address(1)].since, start);
    assert_eq!(book.missing()[&address(1)].why, elsewhere);
    assert_eq!(book.addresses(&wanted, false).count(), 1);
}
