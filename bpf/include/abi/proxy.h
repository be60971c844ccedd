/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The node's Envoy. A connection of a pod to a service of layer 7 ends at Envoy (downstream), which opens another one to a backend
 * (upstream) from the pod's address: whoever judges that connection sees who is behind it. A connection to a local pod whose policy
 * needs layer 7 ends at Envoy likewise (inbound), wherever it comes from; what Envoy lets through goes on, again from the client's
 * address, with a mark of its own.
 */
#ifndef WEFT_ABI_PROXY_H
#define WEFT_ABI_PROXY_H

/* Marks of packets and sockets. No pod can set one: packets lose theirs on the way out of its network namespace. */
#define MARK_TO_PROXY 0x5eed0000 /* to be delivered to a socket of Envoy: the agent's routing rule looks for it */
#define MARK_BY_PROXY 0x5eed0001 /* of what Envoy opens: in the node's network namespace it takes CAP_NET_ADMIN to set it */
#define MARK_ADMITTED 0x5eed0002 /* likewise, of what Envoy opens once the destination's layer 7 policy has let a request through */

/* Where Envoy listens for what is handed to it, on the loopback addresses. */
#define PROXY_PORT 15001   /* by clients' nodes: connections to services */
#define INBOUND_PORT 15006 /* by destinations' nodes: connections to pods */

/* On pods' addresses: connections of other meshed nodes, HTTP/2 CONNECT over mTLS. Always handed over, with STEER_TUNNELS. */
#define TUNNEL_PORT 15008

/*
 * What a flow is to Envoy. The last bit of those in pairs is the end that is Envoy's. Bit 1 (PROXY_IS_UPSTREAM): Envoy has opened it in
 * the name of its opener. Bit 3 (PROXY_IS_INBOUND): it ends at Envoy, in the place of the pod that it is opened to.
 */
enum flow_proxy {
	PROXY_NONE = 0,
	PROXY_DOWNSTREAM = 1, /* from a pod of this node to Envoy, for a service */
	PROXY_UPSTREAM_0 = 2, /* from Envoy, at end 0, in the name of a pod of this node */
	PROXY_UPSTREAM_1 = 3,
	PROXY_OWN = 4, /* by Envoy in nobody's name: it is a node, but none that is let in to its own pods whatever policies say */
	PROXY_ADMITTED_0 = 6, /* as upstream, in anybody's name: the layer 7 policy of its destination has let it through */
	PROXY_ADMITTED_1 = 7,
	PROXY_INBOUND_0 = 8, /* from a pod of this node, to Envoy at end 0 */
	PROXY_INBOUND_1 = 9,
	PROXY_CHAINED_0 = 14, /* from Envoy, at end 0, as upstream, and to Envoy, as inbound */
	PROXY_CHAINED_1 = 15,
};
#define PROXY_IS_UPSTREAM 2
#define PROXY_IS_INBOUND 8
/* With both of these bits VERDICT_PROXY is complied with. */
#define PROXY_COMPLIES 6

enum steering {
	STEER_INBOUND = 1, /* some local workload has WORKLOAD_LAYER7 */
	STEER_TUNNELS = 2, /* TUNNEL_PORT of local pods */
};

/* The one element of `proxy_state`, written by the agent. */
struct proxy_state {
	__u32 ready;    /* 1: Envoy serves; else what is for it is refused at once */
	__u32 steering; /* enum steering: what comes from other nodes for Envoy. 0: nobody has to look */
};
_Static_assert(sizeof(struct proxy_state) == 8, "ABI");

#endif
