/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Connections that come to services from outside the cluster: by an uplink, not by a socket of this node. Their packets are translated
 * where they come in and where they leave; between the two, the node routes and pods judge them as client and backend.
 *
 *   client C asks for V, and backend B is chosen       comes in   C -> V   becomes   C -> B   (NAT_HEAD)
 *   B is not of this node: it has to answer to here    leaves     C -> B   becomes   S -> B   (NAT_MASQUERADE)
 *                                                      comes in   B -> S   becomes   B -> C
 *   in any case                                        leaves     B -> C   becomes   V -> C
 *
 * A client may ask for two services from one port, and be sent to one backend for both. The later connection then has another port C'
 * as far as its backend is concerned, which the first and the last line put in the place of the client's own and back.
 *
 * Each line is an entry, by the packet as it is found. `nat_pending` (LRU) holds those of connections whose client has not been seen to
 * hear the answer, `nat` those where it has: a flood evicts half-open ones only.
 */
#ifndef WEFT_ABI_NAT_H
#define WEFT_ABI_NAT_H

enum nat_stage {
	NAT_IN = 0,  /* comes in by an uplink: its destination is replaced */
	NAT_OUT = 1, /* leaves by an uplink: its source is */
};

struct nat_key {
	struct weft_addr source;
	struct weft_addr destination;
	__be16 source_port;
	__be16 destination_port;
	__u8 protocol; /* IPPROTO_TCP or IPPROTO_UDP */
	__u8 stage;    /* enum nat_stage */
	__u16 pad;     /* zero */
};
_Static_assert(sizeof(struct nat_key) == 40, "ABI");

enum nat_state {
	NAT_NEW = 0,
	NAT_ANSWERED = 1, /* TCP: SYN-ACK seen */
	NAT_ESTABLISHED = 2,
	NAT_CLOSING = 3, /* TCP: one FIN seen */
	NAT_CLOSED = 4,  /* TCP: both, or RST */
};

enum nat_flags {
	NAT_HEAD = 1,       /* what follows, and `state`, `answer`, `service` and `backend`, are of this entry alone */
	NAT_MASQUERADE = 2, /* until it has a port it has no address either: the first packet that leaves gets both */
	NAT_FIN_CLIENT = 4,
	NAT_FIN_SERVER = 8,
	NAT_COUNTED = 16, /* stands in its backend's `open` */
	NAT_HELD = 32,    /* stands in its service's `open` */
};

struct nat_entry {
	__u64 last_ns;         /* CLOCK_MONOTONIC of the last packet */
	struct weft_addr addr; /* what takes the place, with `port` */
	__be16 port;
	__u8 state;   /* enum nat_state */
	__u8 flags;   /* enum nat_flags */
	__u32 answer; /* TCP: what acknowledges the SYN-ACK, host order */
	__u32 service;
	__u32 backend;
	__be16 client_port; /* of the first and the last line: what takes the place of the client's port; 0: it stays */
	__u16 pad[3];       /* zero */
};
_Static_assert(sizeof(struct nat_entry) == 48, "ABI");

/* Value of `uplinks`, by interface index. */
struct uplink {
	struct weft_addr addr4; /* its own addresses, or the node's where it has none; zero: there is none */
	struct weft_addr addr6;
	__u32 link_header; /* bytes before the IP header: 14, or 0 of tunnels that carry IP packets as they are */
	__u32 routed_mtu;  /* longest packet that may go past the node's own stack, see abi/route.h; 0: none may */
};
_Static_assert(sizeof(struct uplink) == 40, "ABI");

/*
 * Key of `source_ranges`, a longest-prefix match: who may reach a service's address from outside. The value is 1 for those who may and 0
 * for those who may not; an address of which it says nothing is open to all.
 */
struct source_range_key {
	__u32 prefix; /* bits that count: those of `service`, and 0 to 128 of `client` as in struct cidr_key */
	struct service_key service;
	struct weft_addr client;
};
_Static_assert(sizeof(struct source_range_key) == 40, "ABI");

/* The one element of `nat_settings`, written by the agent. */
struct nat_settings {
	__u32 enabled;    /* 1: some services are for clients outside; 0: no new connection is looked at */
	__u32 first_port; /* of those that connections to other nodes get here */
	__u32 ports;      /* how many */
	__u32 pad;        /* zero */
};
_Static_assert(sizeof(struct nat_settings) == 16, "ABI");

#endif
