/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Unconnected UDP: each datagram names its destination. A flow (socket, service address) keeps its backend while it is used and
 * the backend takes traffic; replies are shown as coming from the service address, also late ones from an earlier backend.
 */
#ifndef WEFT_LIB_UDP_H
#define WEFT_LIB_UDP_H

#include "../include/weft.h"
#include "address.h"
#include "backend.h"
#include "choose.h"
#include "connect.h"
#include "counter.h"

static __always_inline bool accepts(__u32 id)
{
	struct backend *backend = backend_by_id(id);

	return backend && (backend->flags & BACKEND_ACCEPTS);
}

/*
 * Which entry of a table is wanted: a number, from a function that is verified once. With pointers to the entries the verifier would
 * follow what comes afterwards for each of them.
 */

/* The entry that the flow to `vip` used last; -1: none. */
VERIFIED_ONCE int latest_entry(const struct udp_peers *peers, const struct endpoint *vip)
{
	__u64 last_ns = 0;
	int last = -1;

	if (!peers || !vip)
		return -1;
	for (int i = 0; i < UDP_PEERS; i++) {
		const struct udp_peer *peer = &peers->peer[i];

		if (peer->backend && peer->vip_port == vip->port && addr_equal(&peer->vip, &vip->addr) && peer->last_ns > last_ns) {
			last = i;
			last_ns = peer->last_ns;
		}
	}
	return last;
}

/* The entry that this backend has already, else an unused one, else the one idle for longest. */
VERIFIED_ONCE int entry_for(const struct udp_peers *peers, const struct endpoint *vip, __u32 backend)
{
	__u64 oldest_ns = 0xffffffffffffffffULL;
	int oldest = 0;

	if (!peers || !vip)
		return 0;
	for (int i = 0; i < UDP_PEERS; i++) {
		const struct udp_peer *peer = &peers->peer[i];

		if (peer->backend == backend && peer->vip_port == vip->port && addr_equal(&peer->vip, &vip->addr))
			return i;
		if (peer->last_ns < oldest_ns) {
			oldest = i;
			oldest_ns = peer->last_ns;
		}
	}
	return oldest;
}

/* Where the flow to `vip` goes now; false: it is new, idle for long, or its backend is on its way out. */
static __always_inline bool continue_flow(struct udp_peers *peers, const struct endpoint *vip, __u64 now, struct endpoint *to)
{
	__u32 index = latest_entry(peers, vip);
	struct udp_peer *last;

	if (index >= UDP_PEERS)
		return false;
	last = &peers->peer[index];
	if (now - last->last_ns > UDP_PEER_IDLE_NS || !accepts(last->backend))
		return false;
	last->last_ns = now;
	to->addr = last->addr;
	to->port = last->port;
	return true;
}

static __always_inline void begin_flow(struct udp_peers *peers, const struct endpoint *vip, const struct choice *choice, __u64 now)
{
	__u32 index = entry_for(peers, vip, choice->backend);
	struct udp_peer *peer;

	if (index >= UDP_PEERS)
		return;
	peer = &peers->peer[index];
	if (peer->backend && peer->backend != choice->backend && now - peer->last_ns <= UDP_PEER_IDLE_NS)
		count(COUNTER_UDP_PEERS_EVICTED);
	peer->vip = vip->addr;
	peer->vip_port = vip->port;
	peer->addr = choice->addr;
	peer->port = choice->port;
	peer->backend = choice->backend;
	peer->last_ns = now;
}

/* On SOCKET_ALLOW `user` is where the datagram goes. */
static __always_inline int send_service(struct bpf_sock_addr *ctx, struct endpoint *user)
{
	struct service_key key = { .addr = user->addr, .port = user->port, .protocol = IPPROTO_UDP };
	struct choice choice = {};
	struct udp_peers *peers;
	__u64 now;

	if (!bpf_map_lookup_elem(&services, &key))
		return SOCKET_ALLOW;
	peers = bpf_sk_storage_get(&udp_peers, ctx->sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!peers)
		return refuse(COUNTER_STORAGE_FAILURES);
	now = bpf_ktime_get_ns();
	count(COUNTER_DATAGRAMS);
	if (continue_flow(peers, user, now, user))
		return SOCKET_ALLOW;
	if (choose(&key, bpf_get_netns_cookie(ctx), &choice) != CHOICE_MADE) {
		tell_refused(user, choice.service, IPPROTO_UDP, REASON_NO_BACKEND);
		return refuse(COUNTER_REFUSED);
	}
	if ((choice.flags & SERVICE_LIMITED) && admit(&choice, false)) {
		tell_refused(user, choice.service, IPPROTO_UDP, REASON_RATE_LIMIT);
		return refuse(COUNTER_LIMITED);
	}
	begin_flow(peers, user, &choice, now);
	user->addr = choice.addr;
	user->port = choice.port;
	return SOCKET_ALLOW;
}

/* Shows a reply as coming from the service address. */
static __always_inline bool sender_vip(struct bpf_sock_addr *ctx, struct endpoint *user)
{
	struct udp_peers *peers = bpf_sk_storage_get(&udp_peers, ctx->sk, NULL, 0);

	if (!peers)
		return false;
	for (int i = 0; i < UDP_PEERS; i++) {
		struct udp_peer *peer = &peers->peer[i];

		if (peer->backend && peer->port == user->port && addr_equal(&peer->addr, &user->addr)) {
			user->addr = peer->vip;
			user->port = peer->vip_port;
			return true;
		}
	}
	return false;
}

#endif
