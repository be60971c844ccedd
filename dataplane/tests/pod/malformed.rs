//! Frames that are not what they say, and those that are no IP packets.

use crate::node::{A, B, Dropped, Node, Passed, on_a_node};
use crate::packet::{ethernet, icmp, mangled, neighbour, sctp, tcp, truncated, udp};
use crate::skel::types::reason;

const FAMILIES: [(&str, &str); 2] = [
    ("10.1.0.1:1000", "10.1.0.2:2000"),
    ("[fd00:1::1]:1000", "[fd00:1::2]:2000"),
];

fn refused_as(node: &Node, frame: &[u8]) -> reason {
    assert_eq!(node.frame_from(A, frame), Dropped, "{frame:02x?}");
    reason(node.events().pop().unwrap().reason)
}

#[test]
fn frames_cut_anywhere_are_malformed() {
    for (source, destination) in FAMILIES {
        on_a_node(|node| {
            for packet in [
                tcp(source, destination).syn(1),
                udp(source, destination, b"x"),
                sctp(source, destination),
            ] {
                // BPF_PROG_TEST_RUN itself takes no less than an IP header.
                let least = if source.starts_with('[') { 40 } else { 20 };
                for length in least..packet.len() as usize {
                    let cut = truncated(&packet, length);
                    assert_eq!(refused_as(node, &cut), reason::REASON_MALFORMED);
                }
            }
            assert!(node.pending().is_empty());
        });
    }
}

#[test]
fn lengths_that_contradict_each_other_are_malformed() {
    on_a_node(|node| {
        let v4 = udp("10.1.0.1:1000", "10.1.0.2:2000", b"four");
        let segment = tcp("10.1.0.1:1000", "10.1.0.2:2000").syn(1);
        let v6 = udp("[fd00:1::1]:1000", "[fd00:1::2]:2000", b"four");
        for frame in [
            mangled(&v4, 0, 0x44),       // header of 16 bytes
            mangled(&v4, 0, 0x4f),       // header of 60 bytes, longer than the packet
            mangled(&v4, 0, 0x65),       // version 6 in an IPv4 frame
            mangled(&v4, 3, 19),         // total shorter than the header
            mangled(&v4, 3, 27),         // no room for UDP's header
            mangled(&v4, 2, 1),          // total longer than the frame
            mangled(&v4, 3, 0),          // total of zero
            mangled(&v4, 20 + 5, 7),     // UDP shorter than its header
            mangled(&v4, 20 + 5, 13),    // UDP longer than the packet
            mangled(&segment, 32, 0x40), // TCP header of 16 bytes
            mangled(&segment, 32, 0x60), // of 24 bytes in a packet of 20
            mangled(&v6, 0, 0x40),       // version 4 in an IPv6 frame
            mangled(&v6, 4, 1),          // payload longer than the frame
            mangled(&v6, 5, 0),          // no payload
            mangled(&v6, 40 + 5, 13),    // UDP longer than the packet
        ] {
            assert_eq!(refused_as(node, &frame), reason::REASON_MALFORMED);
        }
        assert!(node.pending().is_empty());
    });
}

#[test]
fn padding_of_the_frame_is_not_the_packet() {
    on_a_node(|node| {
        let mut frame = udp("10.1.0.1:1000", "10.1.0.2:2000", b"").frame();
        frame.resize(60, 0);
        assert_eq!(node.frame_from(A, &frame), Passed);
        assert_eq!(node.pending()[0].bytes, [28, 0]);
    });
}

#[test]
fn extension_headers_are_passed_over() {
    on_a_node(|node| {
        let plain = tcp("[fd00:1::1]:1000", "[fd00:1::2]:80").syn(1);
        let some = plain.clone().extension(0, 0).extension(60, 3);
        assert_eq!(node.between(A, B, &some), Passed);
        let answer = tcp("[fd00:1::2]:80", "[fd00:1::1]:1000").syn(9).ack(2);
        assert_eq!(node.between(B, A, &answer.extension(60, 0)), Passed);
        assert_eq!(node.tracked().len(), 1);

        let six = (0..6).fold(plain.clone(), |packet, _| packet.extension(60, 0));
        assert_eq!(node.from(A, &six), Passed);
        assert_eq!(
            refused_as(node, &six.extension(60, 0).frame()),
            reason::REASON_UNSUPPORTED
        );
        // Its length runs past the packet.
        let long = mangled(&plain.extension(60, 0), 41, 200);
        assert_eq!(refused_as(node, &long), reason::REASON_MALFORMED);
    });
}

#[test]
fn vlan_tags_are_looked_through() {
    for (source, destination) in FAMILIES {
        on_a_node(|node| {
            let plain = udp(source, destination, b"x");
            let tagged = plain.clone().vlan(7);
            assert_eq!(node.between(A, B, &tagged), Passed);
            assert_eq!(node.between(A, B, &tagged.clone().vlan(8)), Passed);
            assert_eq!(node.pending().len(), 1);
            assert_eq!(node.pending()[0].packets, [2, 0]);
            let three = tagged.vlan(8).vlan(9).frame();
            assert_eq!(refused_as(node, &three), reason::REASON_UNSUPPORTED);
        });
    }
}

#[test]
fn the_links_own_protocols_pass_and_others_do_not() {
    const SOMEBODY: [u8; 6] = [2, 0, 0, 0, 0, 2];
    const ARP: u16 = 0x0806;
    const LLDP: u16 = 0x88cc;
    on_a_node(|node| {
        // Even before there is a policy.
        node.forget_policy(A);
        for frame in [
            ethernet(SOMEBODY, ARP),
            ethernet([0xff; 6], ARP),
            ethernet([0x01, 0x80, 0xc2, 0, 0, 0x0e], LLDP),
            ethernet([0x01, 0x80, 0xc2, 0, 0, 0], 38), // spanning tree, IEEE 802.3
            neighbour("fe80::1", "ff02::1:ff00:2").frame(),
            neighbour("::", "ff02::1:ff00:2").frame(),
            icmp("fe80::1", "ff02::16", 143).hop_limit(1).frame(),
        ] {
            assert_eq!(node.frame_from(A, &frame), Passed, "{frame:02x?}");
            assert_eq!(node.frame_to(A, &frame), Passed, "{frame:02x?}");
        }
        for frame in [ethernet(SOMEBODY, LLDP), ethernet(SOMEBODY, 0x8847)] {
            assert_eq!(refused_as(node, &frame), reason::REASON_UNSUPPORTED);
        }
    });
}

#[test]
fn neighbour_discovery_from_beyond_the_link_is_judged() {
    on_a_node(|node| {
        let forged = neighbour("fe80::1", "fd00:1::2").hop_limit(254);
        assert_eq!(node.from(A, &forged), Dropped);
        assert_eq!(
            node.events().pop().unwrap().reason,
            reason::REASON_SPOOFED.0
        );
    });
}
