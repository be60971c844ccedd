/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* A packet at a pod's interface, and what has been found out about it. */
#ifndef WEFT_LIB_PACKET_H
#define WEFT_LIB_PACKET_H

#include "../include/weft.h"

/* Bits of the TCP header's byte 13. */
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10
#define TCP_STEP (TCP_FIN | TCP_SYN | TCP_RST | TCP_ACK) /* those that decide what a segment is for */

enum packet_kind {
	PACKET_FLOW = 0,  /* judged and tracked */
	PACKET_LINK = 1,  /* the link's own business: ARP, neighbour discovery. Always passes */
	PACKET_ERROR = 2, /* ICMP error about another packet */
};

enum fragment_part {
	FRAGMENT_NONE = 0, /* a whole packet */
	FRAGMENT_FIRST = 1,
	FRAGMENT_LATER = 2, /* has no transport header */
};

struct packet {
	struct weft_addr source;
	struct weft_addr destination;
	__be16 source_port; /* ICMP echo: identifier, in both; zero for protocols without ports */
	__be16 destination_port;
	__be32 fragment_id;
	__u32 length;    /* of the IP packet */
	__u32 transport; /* where in the frame what follows the IP headers begins */
	__u32 sequence;  /* TCP, host order, as the next two */
	__u32 acknowledged;
	__u32 next; /* sequence number after all that it carries */
	__u8 protocol;
	__u8 tcp_flags;
	__u8 kind;      /* enum packet_kind */
	__u8 fragment;  /* enum fragment_part */
	__u8 version;   /* 4 or 6; 0 as long as neither is known */
	__u8 opens;     /* ICMP echo request: whoever sends it is no replier */
	__u8 hop_limit; /* or time to live */
	__u8 network;   /* where in the frame the IP header begins */
};

/* No pod's and no node's address; beside enum identity_flags. */
#define PARTY_UNLISTED (1U << 31)

/* Who is at an address. */
struct party {
	__u32 identity;
	__u32 interface;
	__u32 flags; /* enum identity_flags, PARTY_UNLISTED */
};

/* A packet on its way through a program. */
struct passage {
	struct packet packet;
	struct flow_key key; /* of its flow; of an ICMP error: of the flow that it is about */
	__u32 proxy;         /* enum flow_proxy, of its flow. Here, where there is room: stacks on Linux 6.1 are full */
	__u64 now;           /* where a flow begins or is answered; else zero, as most do not ask the clock */
	__u32 interface;
	__u32 epoch;       /* read before anything is judged */
	__u32 sender;      /* the end of the key that sent it */
	__u32 receiver;    /* ICMP errors: interface of the local pod that sent what it is about */
	__u8 from_pod;     /* 1: leaves the pod of `interface`; 0: reaches it */
	__u8 arrived;      /* 1: by an uplink, and goes on past the stack */
	__u8 routed;       /* 1: its flow goes past the stack; where it begins: is to */
	__u8 audited;      /* 1: the rule's audit is news */
	struct party pod;  /* its end behind `interface` */
	struct party peer; /* the other one */
	struct rule rule;  /* what policy said of it, once asked */
};

/*
 * An end or a side, as an index that verifiers believe: that of Linux 6.1 loses the bounds of an exclusive or, and the compiler
 * leaves out a mask that it knows to be without effect.
 */
static __always_inline __u32 either(__u32 end)
{
	asm volatile("" : "+r"(end));
	return end & 1;
}

static __always_inline __u32 other(__u32 end)
{
	return either(end ^ 1);
}

/* The end of the key that sent the packet. */
static __always_inline __u32 sender_of(const struct passage *passage)
{
	return either(passage->sender);
}

/* The end of the key that is the pod's. */
static __always_inline __u32 pod_end(const struct passage *passage)
{
	return either(passage->sender ^ passage->from_pod ^ 1);
}

#endif
