/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Everything that kernel programs and the agent share. Rust takes these types from the skeleton; nothing mirrors them by hand.
 *
 * Addresses are 16 bytes in network order, IPv4 as v4-mapped IPv6 (RFC 4291 2.5.5.2), so that both families take one code path.
 * No struct has implicit padding: keys are compared byte by byte.
 *
 * A change here changes the ABI hash and with it the pin directory (see dataplane/src/bpf/pin.rs).
 */
#ifndef WEFT_ABI_H
#define WEFT_ABI_H

struct weft_addr {
	__be32 word[4];
};
_Static_assert(sizeof(struct weft_addr) == 16, "ABI");

/* ---- services: what clients connect to ---- */

struct service_key {
	struct weft_addr addr;
	__be16 port;
	__u8 protocol; /* IPPROTO_TCP or IPPROTO_UDP */
	__u8 outside;  /* 1: for clients outside the cluster, whose packets come by an uplink; 0: for sockets of this node */
};
_Static_assert(sizeof(struct service_key) == 20, "ABI");

enum lb_policy {
	LB_RANDOM = 0,        /* one slot at random, then its alias by threshold */
	LB_ROUND_ROBIN = 1,   /* slots in turn; the compiler has laid the weights out in them */
	LB_LEAST_REQUEST = 2, /* two slots as LB_RANDOM, then the one with less to wait for: see choose_least_loaded() */
	LB_MAGLEV = 3,        /* the slot that the client hashes to */
};

/* What a connection needs besides a backend. A service without flags pays for a test of these bits and no more. */
enum service_flags {
	SERVICE_TIMED = 1,          /* service_settings.connect_ms */
	SERVICE_AGED = 2,           /* idle_s or lifetime_s */
	SERVICE_LIMITED = 4,        /* max_connections or connections_per_second */
	SERVICE_OUTLIER = 8,        /* consecutive_failures */
	SERVICE_RTT = 16,           /* chooses by round-trip time: measure it */
	SERVICE_UNACCELERATED = 32, /* its connections stay with TCP */
	SERVICE_LAYER7 = 64,        /* pods reach it through the node's Envoy */
	SERVICE_NODE_ONLY = 128,    /* only backends of this node are asked, and without any nobody answers */
};

struct service {
	__u32 id;         /* one per cluster and address family; never 0 */
	__u32 generation; /* counts the agent's changes; the kernel does not look at it */
	__u32 base;       /* index of its first slot */
	__u32 slots;      /* how many; 0: no backend takes connections, refuse at once */
	__u32 policy;     /* enum lb_policy */
	__u32 affinity_s; /* ClientIP affinity, seconds since the client's last new connection; 0: none */
	__u32 near;       /* id of one of its backends: most others stand near it, see touch_backends() */
	__u32 flags;      /* enum service_flags */
};
_Static_assert(sizeof(struct service) == 32, "ABI");

/* ---- slots: each service's choices, side by side from `base` on ---- */

/* Vose's alias method: `backend` if a random u32 is at most `threshold`, else `alias`. */
struct slot {
	__u32 backend;
	__u32 alias;
	__u32 threshold;
};
_Static_assert(sizeof(struct slot) == 12, "ABI");

/*
 * ---- backends: by id modulo the size of the table ----
 *
 * Ids ascend over the whole life of the table, so a place gets a new id only after all others had their turn. Whoever remembers
 * an id (a slot, a socket, a client's affinity) compares it with the one in the place.
 */

enum backend_flags {
	BACKEND_ACCEPTS = 1, /* in its service's current slots: clients bound to it by affinity or an open UDP flow may stay */
};

/* `id` stands first, as the kernel copies array elements from their beginning: see fill_choice(). */
struct backend {
	__u32 id;      /* never 0; 0 is a free place */
	__u32 service; /* service id */
	struct weft_addr addr;
	__u32 weight;
	__be16 port;
	__u16 flags; /* enum backend_flags */
};
_Static_assert(sizeof(struct backend) == 32, "ABI");

/* In the same place of a table of its own, as it is written by the kernel alone once the agent has made the entry. */
struct backend_load {
	__u64 open;    /* connections now */
	__u64 total;   /* connections ever */
	__u32 id;      /* as in struct backend */
	__u32 srtt_us; /* smoothed over connections of services with SERVICE_RTT; 0: not measured yet */
};
_Static_assert(sizeof(struct backend_load) == 24, "ABI");

/* ---- ClientIP affinity: a client is a network namespace, that is a pod, or the node with all its host-network pods ---- */

struct affinity_key {
	__u64 client; /* network namespace cookie */
	__u32 service;
	__u32 pad; /* zero */
};
_Static_assert(sizeof(struct affinity_key) == 16, "ABI");

struct affinity {
	__u64 last_ns; /* CLOCK_MONOTONIC of the last new connection */
	__u32 backend;
	__u32 pad; /* zero */
};
_Static_assert(sizeof(struct affinity) == 16, "ABI");

/*
 * ---- what a connected socket remembers ----
 *
 * TCP in a hash by socket cookie, from connect() to the end of the connection: half the price of socket storage, whose memory is
 * allocated and freed with each connection. Connected UDP in socket storage, which the kernel frees with the socket.
 */

/* Beside these, in the lower half, the service's enum service_flags as they were at connect(). */
enum socket_flags {
	SOCKET_COUNTED = 1 << 16, /* stands in its backend's `open` */
	SOCKET_HELD = 1 << 17,    /* stands in its service's `open` */
};

/* A connected socket (TCP, or UDP after connect) whose destination was a service. */
struct socket_service {
	__u64 cookie;           /* TCP: the socket's; 0: nobody's place */
	struct weft_addr vip;   /* what the application asked for */
	struct weft_addr addr;  /* what it got */
	struct weft_addr local; /* TCP, once the SYN leaves */
	__be16 vip_port;
	__be16 port;
	__be16 local_port; /* TCP, once the SYN leaves */
	__u16 family;      /* TCP, once the SYN leaves: AF_INET or AF_INET6, as the socket was made */
	__u32 backend;
	__u32 service;
	__u32 flags;           /* enum socket_flags, enum service_flags */
	__u32 netns;           /* TCP, once the SYN leaves: as in struct closing_socket */
	__u32 connect_ms;      /* TCP_USER_TIMEOUT during the handshake; 0: as the application has it */
	__u32 user_timeout_ms; /* what the application had there */
};
_Static_assert(sizeof(struct socket_service) == 88, "ABI");

/* An unconnected UDP socket talks to several services at once; each flow keeps its backend while it is used. */
#define UDP_PEERS 16

struct udp_peer {
	struct weft_addr vip;
	struct weft_addr addr;
	__be16 vip_port;
	__be16 port;
	__u32 backend; /* 0: unused entry */
	__u64 last_ns; /* CLOCK_MONOTONIC of the last datagram sent */
};
_Static_assert(sizeof(struct udp_peer) == 48, "ABI");

struct udp_peers {
	struct udp_peer peer[UDP_PEERS];
};
_Static_assert(sizeof(struct udp_peers) == 48 * UDP_PEERS, "ABI");

/* ---- closing connections of backends that went away ---- */

/* One record per socket found by the iterator; enough to destroy it over netlink where the kernel has no bpf_sock_destroy. */
struct closing_socket {
	struct weft_addr local;
	struct weft_addr remote;
	__be16 local_port;
	__be16 remote_port;
	__u16 family;   /* AF_INET or AF_INET6, as the socket has it */
	__u16 protocol; /* IPPROTO_TCP or IPPROTO_UDP */
	__u32 netns;    /* inode number of its network namespace, as in /proc/PID/ns/net */
	__u32 backend;
};
_Static_assert(sizeof(struct closing_socket) == 48, "ABI");

/* ---- counters, per CPU ---- */

enum counter {
	COUNTER_CONNECTIONS = 0,       /* connects sent to a backend */
	COUNTER_REFUSED = 1,           /* connects and datagrams refused: no backend */
	COUNTER_DATAGRAMS = 2,         /* unconnected datagrams sent to a backend */
	COUNTER_AFFINITY_HITS = 3,     /* choices made by affinity */
	COUNTER_CHOICE_RETRIES = 4,    /* choices begun again because the slots changed meanwhile */
	COUNTER_CHOICE_FAILURES = 5,   /* choices given up: counted as refused as well */
	COUNTER_UDP_PEERS_EVICTED = 6, /* live flows of a socket with more than UDP_PEERS of them */
	COUNTER_STORAGE_FAILURES = 7,  /* no memory for a UDP socket's storage: refused */
	COUNTER_SOCKETS_CLOSED =
	    8, /* connections closed because their backend went away, a policy forbids them now, or they are too old */
	COUNTER_UNTRACKED = 9, /* TCP connections that found `connections` full: not counted, and not closed with their backend */
	COUNTER_EVENTS_LOST = 10,     /* records that found `events` full */
	COUNTER_PACKETS_REFUSED = 11, /* packets of pods that were dropped, whatever the reason */
	COUNTER_CONNTRACK_FULL = 12,  /* of these, those that would have been a connection, but `ct` or `ct_pending` had no room */
	COUNTER_LIMITED = 13,         /* connects and datagrams refused: a limit of the service */
	/* same-node acceleration: see abi/accel.h */
	COUNTER_ACCELERATED = 14,          /* pairs of sockets that may be accelerated */
	COUNTER_ACCELERATED_BYTES = 15,    /* bytes that no interface has seen */
	COUNTER_ACCELERATED_MESSAGES = 16, /* in so many pieces */
	COUNTER_ACCEL_FULL = 17,           /* pairs that found a map full: on TCP */
	COUNTER_TCP_LATE = 18,             /* directions on TCP: the first message came before both ends were known */
	COUNTER_TCP_BOUND = 19,            /* directions on TCP: too much was unread */
	COUNTER_TCP_READER = 20,           /* directions on TCP: the reader blocks, or asks for a least number of bytes */
	COUNTER_TCP_POLICY = 21,           /* directions on TCP: not a judged, established connection of two local pods */
	COUNTER_TCP_MEMORY = 22,           /* directions on TCP: TCP as a whole is short of memory */
	COUNTER_TCP_STATE = 23,            /* directions on TCP: half closed, or taken over by TLS in the kernel */
	COUNTER_TCP_ENDED = 24,            /* directions on TCP: the reader is gone, or acceleration was switched off */
	COUNTER_TCP_STREAM = 25,           /* directions on TCP: small messages, faster than they were read */
	/* traffic from outside: see abi/nat.h */
	COUNTER_OUTSIDE = 26,         /* connections and UDP flows sent to a backend */
	COUNTER_OUTSIDE_REFUSED = 27, /* refused, whatever the reason */
	COUNTER_NAT_FULL =
	    28, /* established connections that found no room in `nat`: they last as long as `nat_pending` keeps them */
	COUNTERS = 29,
};

/* ---- agent: ids that must not be used again, over restarts too ---- */

struct id_allocator {
	__u32 next_service;
	__u32 next_backend;
};
_Static_assert(sizeof(struct id_allocator) == 8, "ABI");

#include "abi/policy.h"
#include "abi/conntrack.h"
#include "abi/event.h"
#include "abi/limits.h"
#include "abi/accel.h"
#include "abi/proxy.h"
#include "abi/mtls.h"
#include "abi/nat.h"
#include "abi/route.h"

#endif
