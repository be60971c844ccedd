/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Host routing: packets between local pods and pods of other nodes go from interface to interface, past the node's own IP stack and
 * netfilter. Routes and neighbours are those of the node.
 */
#ifndef WEFT_ABI_ROUTE_H
#define WEFT_ABI_ROUTE_H

/* Value of `pod_links`, by the index of the host's end of a pod's veth pair: how a frame to the pod begins. No entry: by the stack. */
struct pod_link {
	__u8 to[6];   /* the pod's end */
	__u8 from[6]; /* the host's */
};
_Static_assert(sizeof(struct pod_link) == 12, "ABI");

/*
 * Element of `route_places`, an array of each processor's own: where the kernel sends packets of one direction of a flow, as it said a moment
 * ago. A place is a flow's by chance, and the next one's after it.
 */
struct route_place {
	struct flow_key flow;
	__u32 sender;       /* end of the flow's key */
	__u32 interface;    /* by which it goes on */
	__be32 next_hop[4]; /* IPv4: the first */
	__u64 asked_ns;     /* when the kernel was asked; 0: nothing here counts */
	__u32 family;       /* AF_INET or AF_INET6, of the next hop */
	__u32 mtu;          /* of the way */
};
_Static_assert(sizeof(struct route_place) == 80, "ABI");

#endif
