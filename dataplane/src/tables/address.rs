//! `struct weft_addr`: 16 bytes in network order, IPv4 as v4-mapped IPv6.

use std::net::{IpAddr, Ipv6Addr};

use crate::bpf::types;

pub(crate) fn to_raw(address: IpAddr) -> types::weft_addr {
    let octets = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let mut word = [0; 4];
    for (word, bytes) in word.iter_mut().zip(octets.as_chunks::<4>().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
    types::weft_addr { word }
}

pub(crate) fn from_raw(raw: types::weft_addr) -> IpAddr {
    let mut octets = [0; 16];
    for (bytes, word) in octets.as_chunks_mut::<4>().0.iter_mut().zip(raw.word) {
        *bytes = word.to_ne_bytes();
    }
    IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
}
