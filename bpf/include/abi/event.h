/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What happened, and why. */
#ifndef WEFT_ABI_EVENT_H
#define WEFT_ABI_EVENT_H

/* Every reason there is. Text for people: dataplane/src/flow/reason.rs. Append only. */
enum reason {
	REASON_NONE = 0,
	/* let through, or refused, by policy */
	REASON_DEFAULT = 1,  /* no policy selects it: --default-policy */
	REASON_POLICY = 2,   /* a rule says so */
	REASON_ISOLATED = 3, /* policies select the workload, and none of their rules matches */
	REASON_HOST = 4,     /* to or from the workload's own node */
	REASON_LAYER7 = 5,   /* only a proxy can judge it */
	REASON_RELATED = 6,  /* ICMP error about a tracked connection */
	REASON_PROXY = 7,    /* to Envoy, which opens a connection of its own: that one is judged */
	/* refused before policy */
	REASON_NOT_READY = 16,       /* the workload's policy is not compiled yet */
	REASON_SPOOFED = 17,         /* source address of somebody else */
	REASON_MALFORMED = 18,       /* truncated, or lengths that contradict each other */
	REASON_FRAGMENT = 19,        /* fragment whose first one was not seen */
	REASON_TCP_FLAGS = 20,       /* flags that no TCP sends together */
	REASON_TCP_HANDSHAKE = 21,   /* not the next step of the handshake */
	REASON_UNRELATED = 22,       /* ICMP error about nothing known */
	REASON_POLICY_CHANGING = 23, /* the policy changed each time it was read */
	REASON_CONNTRACK_FULL = 24,  /* `ct` has no room */
	REASON_UNSUPPORTED = 25,     /* more extension headers or VLAN tags than are looked at, or neither IP nor ARP */
	REASON_MISDELIVERED = 26,    /* destination address of somebody else */
	REASON_NO_ROOM = 27,         /* IDENTITY_REFUSED: who the peer is found no room in a map */
	REASON_PLAIN_TEXT = 28,      /* plain text from another node, where mTLS is required */
	/* ended */
	REASON_FIN = 32,
	REASON_RST = 33,
	REASON_IDLE = 34,         /* no packet for too long */
	REASON_MAX_DURATION = 35, /* open for too long */
	REASON_REVOKED = 36,      /* a policy change */
	REASON_NO_REPLY = 37,     /* never answered */
	REASON_BACKEND_GONE = 38,
	/* refused or failed at connect() */
	REASON_NO_BACKEND = 48,
	REASON_CONNECTION_LIMIT = 49, /* limits.maxConnections */
	REASON_RATE_LIMIT = 50,       /* limits.connectionsPerSecond */
	REASON_CONNECT_TIMEOUT = 51,  /* timeouts.connect */
	REASON_CONNECT_REFUSED = 52,  /* the backend's RST or an ICMP error */
	REASON_PROXY_DOWN = 53,       /* needs layer 7, and Envoy does not serve */
	/* refused from outside */
	REASON_SOURCE_RANGE = 54, /* not in the service's loadBalancerSourceRanges */
	REASON_NO_PORT = 55,      /* the node has no address or port left to send it on from */
	REASONS = 56,
};

enum event_type {
	EVENT_OPEN = 1,
	EVENT_CLOSE = 2,
	EVENT_DENIED = 3,
	EVENT_AUDITED = 4, /* let through, though an audited policy would have refused it */
	EVENT_EXPIRED = 5,
	EVENT_EJECTED = 6,       /* a backend was taken out: `backend`, `service` */
	EVENT_RETURNED = 7,      /* and is back */
	EVENT_RETRANSMITTED = 8, /* a burst of segments that were sent again is over: `retransmits` of them since `burst_ns` */
};

enum direction {
	DIRECTION_NONE = 0,
	DIRECTION_EGRESS = 1,  /* seen as it left the local pod `source` */
	DIRECTION_INGRESS = 2, /* seen as it reached the local pod `destination` */
};

enum flow_path {
	PATH_KERNEL = 0,      /* packet by packet */
	PATH_ACCELERATED = 1, /* some of its bytes, or all, went from socket to socket */
};

/* A record of `events`. Source is who opened the connection. */
struct event {
	__u64 time_ns;  /* CLOCK_MONOTONIC */
	__u64 first_ns; /* of the connection's first packet; 0: none is known */
	struct weft_addr source;
	struct weft_addr destination;
	struct weft_addr vip; /* of events from connect(): what was asked for; else zero */
	__u64 bytes[2];       /* sent by source, by destination */
	__u64 packets[2];
	__be16 source_port; /* ICMP echo: identifier */
	__be16 destination_port;
	__be16 vip_port;
	__u8 protocol;
	__u8 type; /* enum event_type */
	__u32 source_identity;
	__u32 destination_identity;
	__u32 rule;  /* id of the rule that decided; 0: none did */
	__u32 audit; /* EVENT_AUDITED: id of the rule that would have refused */
	__u32 service;
	__u32 backend;
	__u32 rtt_us;
	__u32 retransmits;
	__u32 interface; /* of the local pod concerned; 0: none */
	__u8 direction;  /* enum direction */
	__u8 verdict;    /* enum verdict */
	__u8 reason;     /* enum reason */
	__u8 tcp_flags;  /* of the packet that was refused, as in the header's byte 13 */
	__u32 isn;       /* TCP: the SYN's sequence number, host order: all nodes know the connection by it; 0: not known */
	__u8 path;       /* enum flow_path, so far */
	__u8 proxy;      /* enum flow_proxy */
	__u8 pad[2];     /* zero */
	__u64 burst_ns;  /* EVENT_RETRANSMITTED: of its first segment, as `time_ns` is of its last */
};
_Static_assert(sizeof(struct event) == 160, "ABI");

#endif
