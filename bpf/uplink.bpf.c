/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What comes in from other nodes for local pods and belongs to Envoy: connections that the pod's policy leaves to Envoy (layer 7), and
 * with STEER_TUNNELS those to TUNNEL_PORT. While there is neither, a packet costs a look at one map.
 */
#include "lib/parse.h"
#include "lib/inbound.h"

/* Gives a packet to Envoy: a SYN to its listener, others to their sockets, by the agent's routing rule for the mark. */
static __always_inline int hand_over(struct __sk_buff *skb, const struct packet *packet)
{
	bool is_tunnel = packet->destination_port == bpf_htons(TUNNEL_PORT) && proxy_steering() & STEER_TUNNELS;

	/* Not taken, it is refused at the pod's interface. */
	if ((packet->tcp_flags & TCP_STEP) == TCP_SYN && assign_listener(skb, packet, is_tunnel ? PROXY_PORT : INBOUND_PORT))
		return TC_ACT_UNSPEC;
	skb->mark = MARK_TO_PROXY;
	return TC_ACT_UNSPEC;
}

static __always_inline bool read_tcp(struct __sk_buff *skb, struct packet *packet)
{
	return !parse(skb, packet) && packet->kind == PACKET_FLOW && packet->protocol == IPPROTO_TCP;
}

/* On the ingress of each uplink. */
SEC("tc")
int weft_from_uplink(struct __sk_buff *skb)
{
	struct packet packet = {};

	if (!proxy_steering() || !read_tcp(skb, &packet) || !is_inbound(skb, &packet))
		return TC_ACT_UNSPEC;
	return hand_over(skb, &packet);
}

/* What comes by the loopback interface is for a pod of this node, or for a tunnel to one of another. */
static __always_inline __u16 port_of_self(const struct packet *packet)
{
	struct weft_addr addr = packet->destination;
	struct party client, server;

	identify(&addr, &server);
	if (!server.interface)
		return ENTRY_PORT;
	addr = packet->source;
	identify(&addr, &client);
	return client.interface || client.flags & IDENTITY_HOST ? INBOUND_PORT : EMERGED_PORT;
}

/*
 * On the ingress of the loopback interface: what the node's own processes send to a pod, and the pod's interface has turned to here
 * (see steer_to_pod); and what Envoy opens to a pod of another node (see connect_upstream). Nothing else has the mark there.
 */
SEC("tc")
int weft_from_self(struct __sk_buff *skb)
{
	struct packet packet = {};

	if (skb->mark != MARK_TO_PROXY || !read_tcp(skb, &packet))
		return TC_ACT_UNSPEC;
	return come_back(skb, &packet, port_of_self(&packet));
}

char LICENSE[] SEC("license") = "GPL";
