/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The node's Envoy. A connection of a pod to a service of layer 7 ends at Envoy (downstream), which opens another one to a backend
 * (upstream) from the pod's address: whoever judges that connection sees who is behind it.
 */
#ifndef WEFT_ABI_PROXY_H
#define WEFT_ABI_PROXY_H

/* Marks of packets and sockets. No pod can set one: packets lose theirs on the way out of its network namespace. */
#define MARK_TO_PROXY 0x5eed0000 /* to be delivered to a socket of Envoy: the agent's routing rule looks for it */
#define MARK_BY_PROXY 0x5eed0001 /* of what Envoy opens: in the node's network namespace it takes CAP_NET_ADMIN to set it */

/* Where Envoy listens for what is handed to it, on the loopback addresses. */
#define PROXY_PORT 15001

/* What a flow is to Envoy. The last bit of an upstream one is the end that is Envoy's. */
enum flow_proxy {
	PROXY_NONE = 0,
	PROXY_DOWNSTREAM = 1, /* from a pod of this node to Envoy */
	PROXY_UPSTREAM_0 = 2, /* from Envoy, at end 0, in the name of a pod of this node */
	PROXY_UPSTREAM_1 = 3,
	PROXY_OWN = 4, /* by Envoy in nobody's name: it is a node, but none that is let in to its own pods whatever policies say */
};

/* The one element of `proxy_state`, written by the agent. */
struct proxy_state {
	__u32 ready; /* 1: Envoy serves; else what is for it is refused at once */
	__u32 pad;   /* zero */
};
_Static_assert(sizeof(struct proxy_state) == 8, "ABI");

#endif
