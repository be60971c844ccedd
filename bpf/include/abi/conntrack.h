/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Connections that cross a pod's interface. `ct_pending` (LRU) holds those without a reply, `ct` those with one: a flood of SYNs
 * evicts half-open entries only.
 */
#ifndef WEFT_ABI_CONNTRACK_H
#define WEFT_ABI_CONNTRACK_H

/*
 * One key for both directions: end 0 is the one whose (address, port) is less, compared byte by byte. ICMP echo has its identifier
 * as both ports.
 */
struct flow_key {
	struct weft_addr addr[2];
	__be16 port[2];
	__u8 protocol; /* IPPROTO_*; ICMP and ICMPv6 as they are */
	__u8 pad[3];   /* zero */
};
_Static_assert(sizeof(struct flow_key) == 40, "ABI");

enum flow_state {
	FLOW_NEW = 0,          /* TCP: SYN seen. Others: no reply yet */
	FLOW_SYN_RECEIVED = 1, /* TCP: SYN-ACK seen that answers the SYN */
	FLOW_ESTABLISHED = 2,  /* TCP: the handshake's last ACK seen. Others: reply seen */
	FLOW_CLOSING = 3,      /* TCP: one FIN seen */
	FLOW_CLOSED = 4,       /* TCP: both FINs seen, or RST; nothing but the rest of the good-bye passes */
	FLOW_REVOKED = 5,      /* refused by a later policy, or expired: only RST and bare ACK pass, so both ends learn of it */
};

enum flow_flags {
	FLOW_FROM_END_1 = 1, /* end 1 opened it; without: end 0 */
	FLOW_PICKED_UP = 2,  /* older than its entry: its handshake was not seen */
	FLOW_FIN_0 = 4,      /* end 0 has sent FIN */
	FLOW_FIN_1 = 8,      /* end 1 has */
	FLOW_OPEN_TOLD = 16, /* an open event was sent: a close event is due */
	FLOW_SYN_DATA = 32,  /* TCP Fast Open: the SYN-ACK may acknowledge what the SYN carried */
	FLOW_HAS_LIFETIME = 64,
	/*
	 * Goes past the node's stack. Between two local pods: some of its bytes went from socket to socket (abi/accel.h). Between one and a
	 * pod of another node: both its directions go from interface to interface (abi/route.h), from its first packet on.
	 */
	FLOW_SHORT_CUT = 128,
};

/* What one end does. */
struct flow_end {
	/* Sent by it, IP payload and headers (skb->len without the link header); where accelerated, the payload alone. */
	__u64 bytes;
	__u64 packets;
	__u32 sent;  /* TCP: sequence number after all that it sent, host order */
	__u32 acked; /* TCP: its last acknowledgment number, host order */
};

/*
 * Arrays are by end of the key, but for `epoch` and `rule`. In order of use, as entries are many more than caches hold and the two ends
 * may be served by two processors: an entry of `ct` begins 96 bytes into a block of cache lines, so that key and head are in lines that
 * packets only read, and what each end's packets write is in a line of its own. A sweep looks at the head alone. All zero but for the
 * flags, the times and what connect() knows (service, backend, idle_s, lifetime_s; of Envoy's also who its ends are and that they were
 * judged) is a flow whose first packet is to come.
 */
struct flow {
	__u64 last_ns;  /* CLOCK_MONOTONIC, as all times */
	__u32 epoch[2]; /* policy epoch in which the opener's egress [0] and the other end's ingress [1] were judged; 0: not here */
	__u8 state;     /* enum flow_state */
	__u8 flags;     /* enum flow_flags */
	__u8 reason;    /* enum reason: why it was let through, or revoked */
	__u8 proxy;     /* enum flow_proxy */
	__u32 idle_s;   /* TrafficPolicy's; 0: the default of its state */
	__u32 interface[2]; /* as in struct identity; 0: not a local pod */

	struct flow_end end_0;
	__u32 lifetime_s; /* TrafficPolicy's maxDuration, with FLOW_HAS_LIFETIME; 0: none */
	__u32 isn;        /* TCP: the SYN's sequence number, host order: the SYN-ACK has to acknowledge it */
	__u64 first_ns;
	__u32 identity[2];
	__u32 service;     /* service id, if it was opened through one and that is known; else 0 */
	__u32 backend;     /* likewise */
	__u32 rtt_us;      /* SYN to SYN-ACK as seen here, or TCP's own smoothed one where the opener is local; 0: unknown */
	__u32 retransmits; /* what was seen to be sent again: by local pods, and of SYN and SYN-ACK by anyone */

	struct flow_end end_1;
	__u32 rule[2]; /* id of the rule that let it through, as epoch */
};
_Static_assert(sizeof(struct flow) == 128, "ABI");

/* Segments of a connection that were sent again, each less than BURST_PAUSE_NS after the one before. */
struct burst {
	__u64 first_ns;
	__u64 last_ns;
	__u32 segments;
	__u32 pad; /* zero */
};
_Static_assert(sizeof(struct burst) == 24, "ABI");

/*
 * Fragments after the first have no ports: they follow the first one. IPv6 tells fragments apart without the protocol, which
 * the later ones may not name either.
 */
struct fragment_key {
	struct weft_addr source;
	struct weft_addr destination;
	__be32 id;
	__u8 protocol; /* IPv6: zero */
	__u8 pad[3];   /* zero */
};
_Static_assert(sizeof(struct fragment_key) == 40, "ABI");

struct fragment {
	__be16 source_port;
	__be16 destination_port;
	__u8 protocol;
	__u8 pad[3]; /* zero */
};
_Static_assert(sizeof(struct fragment) == 8, "ABI");

/* The one element of `ct_settings`: seconds after the last packet. Defaults are in dataplane/src/conntrack. */
struct ct_settings {
	__u32 tcp_new_s;
	__u32 tcp_established_s;
	__u32 tcp_closing_s;
	__u32 tcp_closed_s;
	__u32 udp_new_s;
	__u32 udp_established_s;
	__u32 other_s;
	__u32 pad; /* zero */
};
_Static_assert(sizeof(struct ct_settings) == 32, "ABI");

/*
 * Answer of weft_sweep, in `sweeps`. Not a `syscall` program, as those may sleep and therefore not look into `cidr_identities`, but one
 * of a raw tracepoint that BPF_PROG_TEST_RUN calls: neither argument nor context, and interrupted by packets at any time.
 */
struct sweep {
	__u32 swept;   /* out: entries looked at */
	__u32 pending; /* out: of these, in `ct_pending` */
	__u32 expired; /* out: entries deleted because of their age */
	__u32 revoked; /* out: entries revoked by policy */
	__u32 unread;  /* out: connections to close that found `closing_flows` full; sweep again */
	__u32 nat;     /* out: entries of `nat` */
	__s64 due_ns;  /* out: until the first of the entries that stay is due, if nothing comes; the largest number: none is */
};
_Static_assert(sizeof(struct sweep) == 32, "ABI");

/*
 * What would the programs do with the first packet of this flow? weft_check takes and gives it as the data of BPF_PROG_TEST_RUN
 * (data_in, data_out), as if it were a packet.
 */
struct check {
	struct weft_addr source; /* in */
	struct weft_addr destination;
	__be16 source_port;
	__be16 destination_port;
	__u8 protocol;
	__u8 egress_known;  /* out: the source is a local pod, and `egress` says what its policy does */
	__u8 ingress_known; /* out: likewise the destination */
	__u8 pad;
	__u32 source_identity; /* out */
	__u32 destination_identity;
	struct rule egress; /* out: the rule that decides; first, set as in `rules` */
	struct rule ingress;
};
_Static_assert(sizeof(struct check) == 88, "ABI");

#endif
