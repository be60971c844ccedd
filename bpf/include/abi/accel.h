/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Same-node acceleration: what one pod's socket sends goes into another's queue of received messages, past TCP and IP.
 *
 * A pair is a TCP connection whose ends are sockets of two local pods, of one and the node's Envoy, or both of one pod. Each end has a direction, that of what it sends:
 *
 *     pending --first message goes into the peer's queue--> accelerated --too much unread, or any doubt--> tcp
 *        \---------------first message does not-----------------------------------------------------------^
 *
 * `tcp` is for good, and both arrows to it are safe for the order of bytes. From `pending`: no byte was redirected. From
 * `accelerated`: the reader takes what is in its queue of messages before what TCP delivers. There is no way back: bytes that are
 * still with TCP would be overtaken. A direction that goes there takes the other one along, and both sockets then leave
 * `accel_sockets`: see `accel_leaving`.
 */
#ifndef WEFT_ABI_ACCEL_H
#define WEFT_ABI_ACCEL_H

enum accel_state {
	ACCEL_PENDING = 0,     /* nothing sent yet */
	ACCEL_ACCELERATED = 1, /* all of it so far went into the peer's queue */
	ACCEL_TCP = 2,         /* goes through TCP from now on */
};

/* Key of `accel_sockets`: a socket, by its connection, its end of it, and its network namespace. */
struct accel_key {
	struct flow_key flow;
	__u32 netns; /* inode number, as in struct closing_socket: no other namespace can stand in for it */
	__u32 end;   /* of the flow's key */
};
_Static_assert(sizeof(struct accel_key) == 48, "ABI");

struct accel_end {
	/* Kernel address of its struct sock, 0: not established yet. Only ever looked into, and what is found there believed no more than
	   a hint: the kernel itself finds the socket by its key. */
	__u64 sock;
	__u32 netns;
	__u32 state;   /* enum accel_state of what this end sends */
	__u64 left_ns; /* when it went to TCP, CLOCK_MONOTONIC, while its last redirected message may still be on its way; else 0 */
	__u32 thread;  /* who has sent its redirected messages, ACCEL_THREADS: several */
	__u32 behind;  /* small messages that found others unread, since the other end has last sent something */
	__u64 period_ns; /* when its current period of lib/room.h began, CLOCK_MONOTONIC */
	__u64 waited_ns; /* of that, for room in the other end's queue */
};
_Static_assert(sizeof(struct accel_end) == 48, "ABI");

#define ACCEL_THREADS 0xffffffffU

/*
 * Value of `accel_pairs`: made as the client's end is established, deleted as either is closed. Its key is a struct accel_key of which only
 * the flow counts, and for connections within one namespace that namespace: 127.0.0.1 is another host in each.
 */
struct accel_pair {
	struct accel_end end_0;
	struct accel_end end_1;
};
_Static_assert(sizeof(struct accel_pair) == 96, "ABI");

enum accel_pod_flags {
	ACCEL_POD_OFF = 1,            /* its owner wants no acceleration */
	ACCEL_POD_OFF_FROM_ENVOY = 2, /* the owner of a service that it is behind wants none: what Envoy opens to it stays on TCP */
};

/* Value of `accel_pods`, by interface index as in struct identity: local pods whose namespace is known. Written by the agent. */
struct accel_pod {
	__u32 netns;
	__u32 flags; /* enum accel_pod_flags */
};
_Static_assert(sizeof(struct accel_pod) == 8, "ABI");

/* Key of `accel_listeners`, whose value is the kernel address of the listening socket, a hint as in struct accel_end. */
struct accel_listener {
	__u32 netns;
	__u16 port;   /* host order */
	__u16 family; /* AF_INET or AF_INET6, as the socket has it */
};
_Static_assert(sizeof(struct accel_listener) == 8, "ABI");

/* The one element of `accel_settings`. What the agent cannot fix before loading, as it has to reach connections that live on. */
struct accel_settings {
	__u32 enabled; /* 0: every direction goes to TCP with the first message that finds nothing unread */
	/* How often something was put into `accel_leaving`, modulo 2^32: who waits for that need not search it. */
	__u32 taken_out;
};
_Static_assert(sizeof(struct accel_settings) == 8, "ABI");

#endif
