/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Tells the programs at the pods' interfaces through which service a connection came: they see only the backend's address. The
 * entry is there before the SYN, which then goes on with it.
 */
#ifndef WEFT_LIB_ORIGIN_H
#define WEFT_LIB_ORIGIN_H

#include "../include/weft.h"

/* Nobody reads it where no pod's interface has programs, and of what the node itself opens: that crosses none. */
static __always_inline bool is_tracked(const struct socket_service *socket)
{
	__u32 zero = 0;
	__u32 *watched = bpf_map_lookup_elem(&pods_watched, &zero);

	return watched && *watched && socket->netns != config.node_netns;
}

/* Whether the first end is the greater one, by address and then by port, compared byte by byte. */
static __always_inline bool is_greater(const struct weft_addr *addr, __be16 port, const struct weft_addr *other, __be16 other_port)
{
	for (int i = 0; i < 4; i++) {
		if (addr->word[i] != other->word[i])
			return bpf_ntohl(addr->word[i]) > bpf_ntohl(other->word[i]);
	}
	return bpf_ntohs(port) > bpf_ntohs(other_port);
}

/* The key of the socket's flow; returns the end that is the socket's. */
static __always_inline __u32 flow_key_of_socket(const struct socket_service *socket, struct flow_key *key)
{
	key->protocol = IPPROTO_TCP;
	if (is_greater(&socket->local, socket->local_port, &socket->addr, socket->port)) {
		key->addr[0] = socket->addr;
		key->addr[1] = socket->local;
		key->port[0] = socket->port;
		key->port[1] = socket->local_port;
		return 1;
	}
	key->addr[0] = socket->local;
	key->addr[1] = socket->addr;
	key->port[0] = socket->local_port;
	key->port[1] = socket->port;
	return 0;
}

static __noinline int announce(const struct socket_service *socket)
{
	struct flow_key key = {};
	struct flow flow = { .service = socket->service, .backend = socket->backend };
	__u32 service = socket->service;
	struct service_settings *settings;

	if (flow_key_of_socket(socket, &key))
		flow.flags = FLOW_FROM_END_1;
	if (socket->flags & SERVICE_AGED) {
		settings = bpf_map_lookup_elem(&service_settings, &service);
		flow.idle_s = settings ? settings->idle_s : 0;
		flow.lifetime_s = settings ? settings->lifetime_s : 0;
		if (flow.lifetime_s)
			flow.flags |= FLOW_HAS_LIFETIME;
	}
	flow.first_ns = bpf_ktime_get_coarse_ns();
	flow.last_ns = flow.first_ns;
	bpf_map_update_elem(&ct_pending, &key, &flow, BPF_ANY);
	return 0;
}

/* What TCP knows of the connection by now goes to its flow, before its close is told. */
static __noinline int note_quality(const struct socket_service *socket, __u32 srtt_us, __u32 retransmits)
{
	struct flow_key key = {};
	struct flow *flow;

	flow_key_of_socket(socket, &key);
	flow = bpf_map_lookup_elem(&ct, &key);
	if (!flow)
		return 0;
	flow->rtt_us = srtt_us;
	/* Its programs count what they see, which is a segment less for each that the pod's own interface lost. */
	if (retransmits > flow->retransmits)
		flow->retransmits = retransmits;
	return 0;
}

#endif
