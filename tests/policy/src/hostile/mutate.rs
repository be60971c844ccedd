//! From one frame to another that is a little wrong.

use crate::generate::Random;
use crate::packet::{VLAN, Wire};

/// Where an IPv4 or IPv6 header begins in an untagged frame, and roughly where headers end.
const NETWORK: usize = 14;
const HEADERS: usize = 80;

/// One to four changes, some of them with a piece of the other frame.
#[must_use]
pub fn mutate(random: &mut Random, frame: &[u8], other: &[u8]) -> Wire {
    let mut frame = frame.to_vec();
    for _ in 0..random.number(1..=4) {
        once(random, &mut frame, other);
    }
    // What no driver would hand on, and the kernel does not take for a test either.
    if frame.len() < NETWORK {
        frame.resize(NETWORK, 0);
    }
    frame
}

fn once(random: &mut Random, frame: &mut Wire, other: &[u8]) {
    if frame.len() <= NETWORK {
        frame.extend(other);
    }
    let last = frame.len() - 1;
    let at = random.number(NETWORK..=last.min(HEADERS));
    match random.number(0..=9) {
        0 => frame.truncate(at),
        1 => frame[at] ^= 1 << random.number(0..=7),
        2 => frame[at] = random.pick(&[0, 1, 4, 5, 6, 15, 17, 43, 44, 51, 58, 60, 128, 132, 255]),
        3 | 4 => length(random, frame),
        5 => flags(random, frame),
        6 => {
            let bytes = random.number(1..=16);
            let bytes = random.many(bytes..=bytes, |r| r.bits() as u8);
            frame.splice(at..at, bytes);
        }
        7 => {
            let end = random.number(at..=last);
            frame.drain(at..end);
        }
        8 => {
            let from = random.number(0..=other.len());
            frame.truncate(at);
            frame.extend(&other[from..]);
        }
        _ => {
            let tag = VLAN.to_be_bytes();
            frame.splice(12..12, [tag[0], tag[1], 0, random.bits() as u8]);
        }
    }
}

/// A 16-bit field near the front becomes a length that is nearly right, or not at all.
fn length(random: &mut Random, frame: &mut Wire) {
    let at = NETWORK + random.pick(&[2, 4, 4, 6, 20, 24, 38, 40, 42, 44, 58]);
    if at + 2 > frame.len() {
        return;
    }
    let right = (frame.len() - NETWORK) as u16;
    let value = random.pick(&[
        0,
        1,
        7,
        8,
        19,
        20,
        right.wrapping_sub(41),
        right.wrapping_sub(40),
        right.wrapping_sub(1),
        right,
        right.wrapping_add(1),
        0x1fff,
        0x2000,
        0xffff,
    ]);
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Byte 13 of a TCP header behind an IPv4 or IPv6 one.
fn flags(random: &mut Random, frame: &mut Wire) {
    let at = NETWORK + random.pick(&[20, 40]) + 13;
    if let Some(byte) = frame.get_mut(at) {
        *byte = random.bits() as u8;
    }
}
