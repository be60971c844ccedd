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

#endif
