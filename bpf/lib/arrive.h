/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What comes in by an uplink for a local pod, and goes into it past the node's stack: the uplink's part of lib/route.h. */
#ifndef WEFT_LIB_ARRIVE_H
#define WEFT_LIB_ARRIVE_H

#include "verdict.h"

/* The pod that a remote one opens a connection to; 0 if either is none. */
VERIFIED_ONCE int opened_to(const struct packet *packet)
{
	struct party server, client;
	struct weft_addr addr;

	if (!packet)
		return 0;
	addr = packet->destination;
	identify(&addr, &server);
	if (!server.interface)
		return 0;
	addr = packet->source;
	identify(&addr, &client);
	return is_remote_pod(&client) ? server.interface : 0;
}

/* The pod at the other end of the packet's flow, if that goes past the stack; else 0. */
static __always_inline __u32 pod_of(const struct passage *passage, const struct flow *flow)
{
	return is_routed(flow) ? flow->interface[other(passage->sender)] : 0;
}

/* Likewise of packets whose flow recall() does not know. */
static __always_inline __u32 receiver_of(struct __sk_buff *skb, struct passage *passage)
{
	const struct packet *packet = &passage->packet;
	struct flow *flow;

	if (packet->kind == PACKET_ERROR)
		return related(skb, passage) == REASON_NONE && passage->routed ? passage->receiver : 0;
	if (packet->protocol == IPPROTO_TCP && (packet->tcp_flags & TCP_STEP) == TCP_SYN) {
		flow = bpf_map_lookup_elem(&ct_pending, &passage->key);
		if (flow)
			return pod_of(passage, flow);
		/* Envoy's are for weft_translate(). */
		return is_inbound(skb, packet) ? 0 : opened_to(packet);
	}
	/* Not answered yet, or a SYN-ACK that was sent again. */
	flow = tracked(&passage->key);
	return flow ? pod_of(passage, flow) : 0;
}

/* Not of those that go past the stack. */
#define NOT_ROUTED (-2)

/* What becomes of a packet that has come in by an uplink. */
static __always_inline int arrive(struct __sk_buff *skb, struct passage *passage)
{
	struct pod_link *link;
	struct flow *flow;
	__u32 interface;
	int verdict;

	if (!is_plain(skb, &passage->packet))
		return NOT_ROUTED;
	passage->sender = flow_key_of(&passage->packet, &passage->key);
	flow = recall(passage);
	interface = flow ? pod_of(passage, flow) : receiver_of(skb, passage);
	link = interface ? bpf_map_lookup_elem(&pod_links, &interface) : NULL;
	if (!link)
		return NOT_ROUTED;
	passage->interface = interface;
	passage->arrived = 1;
	verdict = decide(skb, passage, flow);
	return verdict == POD_PASS ? enter_pod(skb, passage, link) : verdict;
}

#endif
