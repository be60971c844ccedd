#![allow(clippy::unwrap_used)]

use std::num::NonZeroU32;

use super::*;
use crate::tables::memory::MemoryTable;

fn index(number: u32) -> InterfaceIndex {
    InterfaceIndex(NonZeroU32::new(number).unwrap())
}

fn wanted(interfaces: &[u32]) -> BTreeSet<InterfaceIndex> {
    interfaces.iter().map(|number| index(*number)).collect()
}

fn found(pairs: &[(u32, u64)]) -> BTreeMap<InterfaceIndex, NetnsCookie> {
    let pairs = pairs.iter();
    pairs.map(|(i, c)| (index(*i), NetnsCookie(*c))).collect()
}

fn table() -> MemoryTable<NetnsCookie, u32> {
    MemoryTable::new("outsiders", 2)
}

fn held(table: &MemoryTable<NetnsCookie, u32>) -> Vec<u64> {
    table.with(|entries| entries.keys().map(|cookie| cookie.0).collect())
}

#[test]
fn who_is_in_again_leaves_at_once() {
    let table = table();
    let mut book = Book::new(Box::new(table.clone())).unwrap();
    let all = found(&[(1, 11), (2, 12)]);
    assert!(book.keep(&wanted(&[1, 2]), all, false).unwrap());
    assert_eq!(held(&table), [11, 12]);
    assert!(book.keep(&wanted(&[2]), found(&[(2, 12)]), false).unwrap());
    assert_eq!(held(&table), [12]);
    // The place of an interface is another pod's now.
    assert!(book.keep(&wanted(&[2]), found(&[(2, 13)]), true).unwrap());
    assert_eq!(held(&table), [13]);
    assert!(book.keep(&wanted(&[]), found(&[]), true).unwrap());
    assert!(held(&table).is_empty());
}

#[test]
fn what_was_found_once_stays_when_it_is_not_found_again() {
    let table = table();
    let mut book = Book::new(Box::new(table.clone())).unwrap();
    book.keep(&wanted(&[1]), found(&[(1, 11)]), true).unwrap();
    assert!(!book.keep(&wanted(&[1]), found(&[]), true).unwrap());
    assert_eq!(held(&table), [11]);
}

#[test]
fn an_earlier_agents_entries_stay_until_all_pods_are_found() {
    let table = table();
    table.with(|entries| entries.extend([(NetnsCookie(11), OUT), (NetnsCookie(12), OUT)]));
    let mut book = Book::new(Box::new(table.clone())).unwrap();
    book.keep(&wanted(&[]), found(&[]), false).unwrap();
    book.keep(&wanted(&[1]), found(&[]), true).unwrap();
    assert_eq!(held(&table), [11, 12]);
    book.keep(&wanted(&[1]), found(&[(1, 11)]), true).unwrap();
    assert_eq!(held(&table), [11]);
}

#[test]
fn a_full_table_is_tried_again() {
    let table = table();
    let mut book = Book::new(Box::new(table.clone())).unwrap();
    let three = found(&[(1, 11), (2, 12), (3, 13)]);
    assert!(book.keep(&wanted(&[1, 2, 3]), three, true).is_err());
    let two = found(&[(2, 12), (3, 13)]);
    assert!(book.keep(&wanted(&[2, 3]), two, true).unwrap());
    assert_eq!(held(&table), [12, 13]);
}
