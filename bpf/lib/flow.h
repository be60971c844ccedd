/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What is kept of a connection. Programs on several processors write to one entry: whatever has to happen once (an open or a close
 * event) hangs on an atomic bit or on being the one that deletes the entry; the rest is last writer wins.
 */
#ifndef WEFT_LIB_FLOW_H
#define WEFT_LIB_FLOW_H

#include "packet.h"

/* The four bytes from `state` on as one word, for atomics; and a flag's place in it. */
#define FLOW_WORD(flow) ((__u32 *)&(flow)->state)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FLOW_FLAG(flag) ((__u32)(flag) << 8)
#else
#define FLOW_FLAG(flag) ((__u32)(flag) << 16)
#endif
_Static_assert(offsetof(struct flow, flags) == offsetof(struct flow, state) + 1, "FLOW_FLAG");
_Static_assert(offsetof(struct flow, state) % 4 == 0, "FLOW_WORD");

/* Sets a flag; true for the one that did. */
static __always_inline bool flow_set(struct flow *flow, __u8 flag)
{
	return !(__sync_fetch_and_or(FLOW_WORD(flow), FLOW_FLAG(flag)) & FLOW_FLAG(flag));
}

/* Clears a flag; true for the one that did. */
static __always_inline bool flow_clear(struct flow *flow, __u8 flag)
{
	return __sync_fetch_and_and(FLOW_WORD(flow), ~FLOW_FLAG(flag)) & FLOW_FLAG(flag);
}

/* Whether some of its bytes went from socket to socket. */
static __always_inline bool is_accelerated(const struct flow *flow)
{
	return flow->flags & FLOW_SHORT_CUT && (flow->proxy || (flow->interface[0] && flow->interface[1]));
}

/* Whether its packets go past the node's stack: see lib/route.h. */
static __always_inline bool is_routed(const struct flow *flow)
{
	return flow->flags & FLOW_SHORT_CUT && !flow->proxy && !(flow->interface[0] && flow->interface[1]);
}

/* The end of the key that opened it. */
static __always_inline __u32 opener_of(const struct flow *flow)
{
	return either(flow->flags & FLOW_FROM_END_1);
}

/* Which judgement is this pod's: 0 as it opened the flow, 1 as it was opened to it. */
static __always_inline __u32 side_of(const struct passage *passage, __u32 opener)
{
	return either(opener ^ pod_end(passage));
}

static __always_inline __u64 high_half(const struct weft_addr *addr)
{
	return (__u64)bpf_ntohl(addr->word[0]) << 32 | bpf_ntohl(addr->word[1]);
}

static __always_inline __u64 low_half(const struct weft_addr *addr)
{
	return (__u64)bpf_ntohl(addr->word[2]) << 32 | bpf_ntohl(addr->word[3]);
}

static __always_inline bool source_is_greater(const struct packet *packet)
{
	__u64 source = low_half(&packet->source), destination = low_half(&packet->destination);
	__u64 source_high = high_half(&packet->source), destination_high = high_half(&packet->destination);

	if (source_high != destination_high)
		return source_high > destination_high;
	if (source != destination)
		return source > destination;
	return bpf_ntohs(packet->source_port) > bpf_ntohs(packet->destination_port);
}

/* The key of a packet's flow; returns the end that sent it. */
static __always_inline __u32 flow_key_of(const struct packet *packet, struct flow_key *key)
{
	key->protocol = packet->protocol;
	if (source_is_greater(packet)) {
		key->addr[0] = packet->destination;
		key->addr[1] = packet->source;
		key->port[0] = packet->destination_port;
		key->port[1] = packet->source_port;
		return 1;
	}
	key->addr[0] = packet->source;
	key->addr[1] = packet->destination;
	key->port[0] = packet->source_port;
	key->port[1] = packet->destination_port;
	return 0;
}

/* Entries of `ct` and `ct_pending` by a packet's key, from a copy: before Linux 6.2 a map takes no key from memory of a caller. */

static __always_inline struct flow *find_flow(void *map, const struct passage *passage)
{
	struct flow_key key = passage->key;

	return bpf_map_lookup_elem(map, &key);
}

/* 0, or an error as of bpf_map_update_elem(): an int, of which Linux before 6.4 gives no more than the lower half to programs. */
static __always_inline int put_flow(void *map, const struct passage *passage, const struct flow *flow, __u64 flags)
{
	struct flow_key key = passage->key;

	return bpf_map_update_elem(map, &key, flow, flags);
}

static __always_inline void forget_flow(void *map, const struct passage *passage)
{
	struct flow_key key = passage->key;

	bpf_map_delete_elem(map, &key);
}

/* Opened by Envoy in the name of a pod. Its packets pass one pod's interface only, though the pods at both ends may be of this node. */
static __always_inline bool is_upstream(__u8 proxy)
{
	return proxy & PROXY_IS_UPSTREAM;
}

/* Likewise those that a pod opens to Envoy in the place of another pod. */
static __always_inline bool passes_once(__u8 proxy)
{
	return proxy & (PROXY_IS_UPSTREAM | PROXY_IS_INBOUND);
}

/*
 * A packet between two pods of this node passes both of their interfaces: the first counts it, and what ends its flow takes effect
 * at the last, so that it still finds the flow there.
 */
static __always_inline bool is_counted_here(const struct passage *passage, const struct flow *flow)
{
	return passage->from_pod || !flow->interface[sender_of(passage)] || passes_once(flow->proxy);
}

static __always_inline bool is_last_here(const struct passage *passage, const struct flow *flow)
{
	return !passage->from_pod || !flow->interface[other(passage->sender)] || passes_once(flow->proxy);
}

#define NEITHER_END 2U

/* The end that is Envoy's, of a flow between Envoy and a pod of this node; NEITHER_END: it is none. */
static __always_inline __u32 envoys_end(const struct flow *flow)
{
	__u8 proxy = flow->proxy;

	if (!proxy || proxy & PROXY_IS_CARRIER || (proxy & ~1) == PROXY_CHAINED_0)
		return NEITHER_END;
	if (proxy == PROXY_DOWNSTREAM)
		return other(opener_of(flow));
	return proxy == PROXY_OWN ? opener_of(flow) : proxy & 1;
}

static __always_inline struct flow_end *end_of(const struct flow *flow, __u32 end)
{
	return (struct flow_end *)(end ? &flow->end_1 : &flow->end_0);
}

static __always_inline void count_packet(struct flow *flow, const struct passage *passage)
{
	struct flow_end *end = end_of(flow, sender_of(passage));
	__u64 now = bpf_ktime_get_coarse_ns();

	/* Ages are seconds: the clock of the last tick will do. Written once a tick, as other processors read that line. */
	if (flow->last_ns != now)
		flow->last_ns = now;
	if (!is_counted_here(passage, flow))
		return;
	__sync_fetch_and_add(&end->bytes, passage->packet.length);
	__sync_fetch_and_add(&end->packets, 1);
}

/* Whether a pod that is gone had this flow, and its address is another's now. */
static __always_inline bool is_of_another_pod(const struct flow *flow, const struct passage *passage)
{
	__u32 interface = flow->interface[pod_end(passage)];

	return interface && interface != passage->interface;
}

#endif
