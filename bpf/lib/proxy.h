/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Hand-over to the node's Envoy, at pods' interfaces. What is for it gets a mark that a routing rule of the agent looks for, and is
 * delivered to a socket of this network namespace whatever its destination is: Envoy's sockets have the addresses of the packets
 * (transparent). No iptables, and only packets of flows that are flagged pay for it.
 */
#ifndef WEFT_LIB_PROXY_H
#define WEFT_LIB_PROXY_H

#include <linux/pkt_cls.h>

#include "packet.h"

#include "proxy_state.h"

#define PACKET_HOST 0
#define LOOPBACK_INTERFACE 1

/* By what Envoy opens, as it reaches a pod. */
static __always_inline __u32 proxy_by_mark(const struct __sk_buff *skb, const struct passage *passage)
{
	if (skb->mark == MARK_ADMITTED)
		return PROXY_ADMITTED_0 | sender_of(passage);
	return skb->mark == MARK_BY_PROXY ? PROXY_OWN : PROXY_NONE;
}

/* What a TCP flow that this packet may begin is to Envoy. Pods and nodes are no services: only what is neither is looked up. */
static __always_inline __u32 new_flow_proxy(const struct __sk_buff *skb, const struct passage *passage)
{
	const struct packet *packet = &passage->packet;
	struct service_key key = {};
	struct service *service;

	if (!passage->from_pod)
		return proxy_by_mark(skb, passage);
	if (passage->peer.interface && (packet->tcp_flags & TCP_STEP) == TCP_SYN &&
	    asks_proxy(&passage->pod, &passage->peer, packet))
		return PROXY_INBOUND_0 | other(pod_end(passage));
	if (!(passage->peer.flags & PARTY_UNLISTED))
		return PROXY_NONE;
	key.addr = packet->destination;
	key.port = packet->destination_port;
	key.protocol = IPPROTO_TCP;
	service = bpf_map_lookup_elem(&services, &key);
	return service && (service->flags & SERVICE_LAYER7) ? PROXY_DOWNSTREAM : PROXY_NONE;
}

static __always_inline __u32 fill_tuple(const struct packet *packet, struct bpf_sock_tuple *tuple)
{
	if (packet->version == 4) {
		tuple->ipv4.saddr = packet->source.word[3];
		tuple->ipv4.daddr = packet->destination.word[3];
		tuple->ipv4.sport = packet->source_port;
		tuple->ipv4.dport = packet->destination_port;
		return sizeof(tuple->ipv4);
	}
	__builtin_memcpy(tuple->ipv6.saddr, &packet->source, sizeof(tuple->ipv6.saddr));
	__builtin_memcpy(tuple->ipv6.daddr, &packet->destination, sizeof(tuple->ipv6.daddr));
	tuple->ipv6.sport = packet->source_port;
	tuple->ipv6.dport = packet->destination_port;
	return sizeof(tuple->ipv6);
}

static __always_inline void aim_at_listener(struct bpf_sock_tuple *tuple, __u8 version, __u16 port)
{
	if (version == 4) {
		tuple->ipv4.daddr = bpf_htonl(0x7f000001);
		tuple->ipv4.dport = bpf_htons(port);
		return;
	}
	tuple->ipv6.daddr[0] = 0;
	tuple->ipv6.daddr[1] = 0;
	tuple->ipv6.daddr[2] = 0;
	tuple->ipv6.daddr[3] = bpf_htonl(1);
	tuple->ipv6.dport = bpf_htons(port);
}

static __always_inline struct bpf_sock *find_socket(struct __sk_buff *skb, struct bpf_sock_tuple *tuple, __u8 version)
{
	if (version == 4)
		return bpf_skc_lookup_tcp(skb, tuple, sizeof(tuple->ipv4), BPF_F_CURRENT_NETNS, 0);
	return bpf_skc_lookup_tcp(skb, tuple, sizeof(tuple->ipv6), BPF_F_CURRENT_NETNS, 0);
}

/* A SYN goes to Envoy's listener, or to what an earlier SYN made of it. Others find their socket by their addresses. */
VERIFIED_ONCE int assign_listener(struct __sk_buff *skb, const struct packet *packet, __u16 port)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *socket;
	long error;

	if (!packet)
		return REASON_MALFORMED;
	fill_tuple(packet, &tuple);
	socket = find_socket(skb, &tuple, packet->version);
	if (socket && (socket->state == BPF_TCP_LISTEN || socket->state == BPF_TCP_TIME_WAIT)) {
		bpf_sk_release(socket);
		socket = NULL;
	}
	if (!socket) {
		aim_at_listener(&tuple, packet->version, port);
		socket = find_socket(skb, &tuple, packet->version);
	}
	if (!socket)
		return REASON_PROXY_DOWN;
	error = bpf_sk_assign(skb, socket, 0);
	bpf_sk_release(socket);
	return error ? REASON_PROXY_DOWN : REASON_NONE;
}

VERIFIED_ONCE int to_proxy(struct __sk_buff *skb, const struct passage *passage)
{
	enum reason reason = REASON_NONE;
	__u16 port = PROXY_PORT;

	if (!passage)
		return REASON_MALFORMED;
	if (passage->proxy & PROXY_IS_INBOUND)
		port = INBOUND_PORT;
	if ((passage->packet.tcp_flags & TCP_STEP) == TCP_SYN && !passage->packet.fragment) {
		reason = is_proxy_ready() ? assign_listener(skb, &passage->packet, port) : REASON_PROXY_DOWN;
		if (reason)
			return reason;
	}
	skb->mark = MARK_TO_PROXY;
	return REASON_NONE;
}

/*
 * What the node has sent on its way to a pod, and is Envoy's: in again, as if it came in through this interface. That of the pod which it
 * comes from, or in whose name Envoy asked.
 */
static __always_inline int turn_to(struct __sk_buff *skb, __u32 interface)
{
	__u8 link[12], turned[12];

	if (bpf_skb_load_bytes(skb, 0, link, sizeof(link)))
		return TC_ACT_SHOT;
	__builtin_memcpy(turned, link + 6, 6);
	__builtin_memcpy(turned + 6, link, 6);
	if (bpf_skb_store_bytes(skb, 0, turned, sizeof(turned), 0))
		return TC_ACT_SHOT;
	skb->mark = MARK_TO_PROXY;
	return bpf_redirect(interface, BPF_F_INGRESS);
}

/* What turn_to() sent. The mark is not the pod's: it would have lost it on its way out of the pod. */
static __always_inline int come_back(struct __sk_buff *skb, const struct packet *packet)
{
	if ((packet->tcp_flags & TCP_STEP) == TCP_SYN && assign_listener(skb, packet, INBOUND_PORT))
		return TC_ACT_SHOT;
	bpf_skb_change_type(skb, PACKET_HOST);
	return TC_ACT_UNSPEC;
}

#endif
