/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Connections to local pods that end at Envoy, seen by those who do not track them: at the uplinks, and where the node's own processes
 * reach a pod. What belongs to one is told by its socket. Nothing here refuses: whatever is not taken goes on to the pod's interface,
 * where VERDICT_PROXY refuses what does not come from Envoy.
 */
#ifndef WEFT_LIB_INBOUND_H
#define WEFT_LIB_INBOUND_H

#include "flow.h"
#include "identity.h"
#include "proxy.h"

/* Whether Envoy has a socket for this packet, and no pod's interface tracks its flow: then it is of a connection that came in. */
VERIFIED_ONCE int has_inbound_socket(struct __sk_buff *skb, const struct packet *packet)
{
	struct bpf_sock_tuple tuple = {};
	struct flow_key key = {};
	struct bpf_sock *socket;
	bool is_listener;

	if (!packet)
		return false;
	flow_key_of(packet, &key);
	if (bpf_map_lookup_elem(&ct, &key))
		return false;
	fill_tuple(packet, &tuple);
	socket = find_socket(skb, &tuple, packet->version);
	if (!socket)
		return false;
	is_listener = socket->state == BPF_TCP_LISTEN;
	bpf_sk_release(socket);
	return !is_listener;
}

/* Whether it is plain text from another node, and the pod does not take that: Envoy must not either. */
static __always_inline bool is_refused_inbound(const struct party *client, const struct packet *packet)
{
	__u32 flags = mtls_flags();

	if (!(flags & MTLS_REQUIRES) || client->interface || client->flags & IDENTITY_HOST)
		return false;
	return requires_tunnel(&packet->destination, packet->destination_port, flags);
}

/* Whether a TCP packet to a local pod is for Envoy. */
VERIFIED_ONCE int is_inbound(struct __sk_buff *skb, const struct packet *packet)
{
	struct party client, server;
	__u32 steering = proxy_steering();
	struct weft_addr addr;
	bool is_tunnel;

	if (!packet || !steering || packet->fragment)
		return false;
	addr = packet->destination;
	identify(&addr, &server);
	if (!server.interface)
		return false;
	is_tunnel = steering & STEER_TUNNELS && packet->destination_port == bpf_htons(TUNNEL_PORT);
	addr = packet->source;
	identify(&addr, &client);
	if (!is_tunnel && is_refused_inbound(&client, packet))
		return false;
	switch (packet->tcp_flags & TCP_STEP) {
	case TCP_SYN:
		if (is_tunnel)
			return is_proxy_ready();
		return is_proxy_ready() && asks_proxy(&client, &server, packet);
	case TCP_SYN | TCP_ACK:
		return false;
	default:
		return (is_tunnel || is_flagged(server.interface)) && has_inbound_socket(skb, packet);
	}
}

#endif
