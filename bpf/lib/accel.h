/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Whether a message goes straight into its reader's queue. The states are those of abi/accel.h. */
#ifndef WEFT_LIB_ACCEL_H
#define WEFT_LIB_ACCEL_H

#include "room.h"
#include "sweep.h"

#define ACCEL_ESTABLISHED 1
#define ACCEL_FIN_WAIT1 4
#define ACCEL_FIN_WAIT2 5
#define ACCEL_CLOSE_WAIT 8

/* REASON_NONE's equal: no reason to send it through TCP. The others are the counters of the reasons. */
#define NO_OBSTACLE ((enum counter)0)

/* After shutdown(SHUT_WR) send() has to fail, which it does in TCP. */
static __always_inline bool may_send(const struct sk_msg_md *msg)
{
	__u32 state = msg->sk ? msg->sk->state : 0;

	return state == ACCEL_ESTABLISHED || state == ACCEL_CLOSE_WAIT;
}

static __always_inline bool may_receive(const struct sock *sk)
{
	__u8 state = sk->__sk_common.skc_state;

	return state == ACCEL_ESTABLISHED || state == ACCEL_FIN_WAIT1 || state == ACCEL_FIN_WAIT2;
}

/* Judges again what was judged by an earlier policy. What is refused now goes through TCP, where the pod's interface ends it. */
VERIFIED_ONCE int is_still_allowed(const struct flow_key *key, __u32 side)
{
	struct flow_key copy;
	struct rule rule = {};
	struct flow *flow;
	__u32 epoch = policy_epoch();

	if (!key)
		return 0;
	copy = *key;
	side = either(side);
	flow = bpf_map_lookup_elem(&ct, &copy);
	if (!flow || !epoch || judge_idle(&copy, flow, side, &rule) != REASON_NONE)
		return 0;
	flow = bpf_map_lookup_elem(&ct, &copy);
	if (!flow || flow->state == FLOW_REVOKED)
		return 0;
	flow->epoch[side] = epoch;
	return 1;
}

/* Whether the interface of each pod has let it through. Where Envoy is at the other end, nobody may have been asked there. */
static __always_inline bool is_let_through(const struct flow *flow)
{
	__u32 envoy = envoys_end(flow);

	if (envoy == NEITHER_END)
		return flow->interface[0] && flow->interface[1] && flow->epoch[0] && flow->epoch[1];
	return flow->epoch[either(opener_of(flow) ^ other(envoy))];
}

/* Whether the judgement of this side stands. */
static __always_inline bool is_settled_by(const struct flow_key *key, const struct flow *flow, __u32 side, __u32 epoch)
{
	/* Judged where Envoy goes on. */
	if (!flow->epoch[side] || flow->epoch[side] == epoch || flow->proxy == PROXY_DOWNSTREAM)
		return true;
	return is_still_allowed(key, side);
}

/* The connection's entry, if the pods' interfaces have let it through as an established one, and still would. */
static __always_inline struct flow *allowed_flow(struct flow_key *key)
{
	struct flow *flow = bpf_map_lookup_elem(&ct, key);
	__u32 epoch = policy_epoch();

	if (!flow || !epoch || !is_let_through(flow))
		return NULL;
	if (flow->state != FLOW_ESTABLISHED && flow->state != FLOW_CLOSING)
		return NULL;
	if (flow->epoch[0] == epoch && flow->epoch[1] == epoch)
		return flow;
	if (!is_settled_by(key, flow, 0, epoch) || !is_settled_by(key, flow, 1, epoch))
		return NULL;
	return bpf_map_lookup_elem(&ct, key);
}

/* Messages that TCP puts together unless it is told not to (Nagle's algorithm, RFC 896): to send each for itself costs more. */
#define SMALL_MESSAGE 512
#define STREAM_MESSAGES 64

#define TCP_NAGLE_OFF 1 /* of tcp_sock.nonagle: TCP_NODELAY (include/net/tcp.h) */

/* Whether this end writes small messages faster than they are read, and gets no answer. */
static __always_inline bool is_stream(const struct sk_msg_md *msg, struct accel_end *own, struct accel_end *peer, __u64 unread)
{
	const struct tcp_sock *writer;

	if (peer->behind)
		peer->behind = 0;
	if (!unread || msg->size >= SMALL_MESSAGE || ++own->behind <= STREAM_MESSAGES)
		return false;
	own->behind = 0;
	writer = KERNEL_OBJECT(struct tcp_sock, own->sock);
	return !(BPF_CORE_READ_BITFIELD(writer, nonagle) & TCP_NAGLE_OFF);
}

static __always_inline enum counter obstacle(const struct sk_msg_md *msg, struct accel_end *own, struct accel_end *peer)
{
	const struct sock *reader;
	__u64 unread;

	if (!peer->sock)
		return COUNTER_TCP_LATE;
	reader = KERNEL_OBJECT(struct sock, peer->sock);
	unread = unread_bytes(reader);
	/* Not while something is unread: there may be no agent any more to take the reader out. The bound holds meanwhile. */
	if (!is_enabled() && !unread)
		return COUNTER_TCP_ENDED;
	if (!may_send(msg) || !may_receive(reader) || !is_plain_tcp(KERNEL_OBJECT(struct tcp_sock, peer->sock)))
		return COUNTER_TCP_STATE;
	if (!reads_as_it_comes(reader))
		return COUNTER_TCP_READER;
	if (is_stream(msg, own, peer, unread))
		return COUNTER_TCP_STREAM;
	if (!has_room(own, peer->sock, unread, msg->size))
		return COUNTER_TCP_BOUND;
	if (is_short_of_memory(reader))
		return COUNTER_TCP_MEMORY;
	return NO_OBSTACLE;
}

/* False: the other end has sent both to TCP meanwhile. */
static __always_inline bool claim(struct accel_end *own)
{
	return own->state == ACCEL_ACCELERATED ||
	       __sync_val_compare_and_swap(&own->state, ACCEL_PENDING, ACCEL_ACCELERATED) != ACCEL_TCP;
}

static __always_inline void account(struct flow *flow, __u32 end, __u32 bytes)
{
	struct flow_end *sender = end_of(flow, end);
	__u64 now = bpf_ktime_get_coarse_ns();

	if (flow->last_ns != now)
		flow->last_ns = now;
	if (!(flow->flags & FLOW_SHORT_CUT))
		flow_set(flow, FLOW_SHORT_CUT);
	__sync_fetch_and_add(&sender->bytes, bytes);
	__sync_fetch_and_add(&sender->packets, 1);
}

/* Of the socket that sends. */
static __always_inline __u32 netns_of_message(const struct sk_msg_md *msg)
{
	return KERNEL_OBJECT(struct sock, msg->sk)->__sk_common.skc_net.net->ns.inum;
}

/* Messages always pass: to the peer's queue where that was arranged, else to TCP. */
static __always_inline int accelerate(struct sk_msg_md *msg)
{
	struct packet sent = {};
	struct accel_key key = {};
	struct accel_end *own, *peer;
	struct accel_pair *pair;
	struct flow *flow = NULL;
	enum counter why;
	bool is_within;
	__u32 end;

	connection_of_sk_msg_md(msg, &sent);
	end = either(flow_key_of(&sent, &key.flow));
	is_within = is_within_namespace(&key.flow);
	if (is_within)
		key.netns = netns_of_message(msg);
	pair = bpf_map_lookup_elem(&accel_pairs, &key);
	if (!pair)
		return SK_PASS;
	own = end_of_pair(pair, end);
	peer = end_of_pair(pair, other(end));
	key.netns = peer->netns;
	key.end = other(end);
	if (own->state == ACCEL_TCP) {
		note_settled(own);
		return SK_PASS;
	}
	why = obstacle(msg, own, peer);
	/* What stays in one namespace passes no interface that policy is asked at. */
	if (!why && !is_within) {
		flow = allowed_flow(&key.flow);
		why = flow ? NO_OBSTACLE : COUNTER_TCP_POLICY;
	}
	if (!why) {
		if (!claim(own))
			return SK_PASS;
		if (bpf_msg_redirect_hash(msg, &accel_sockets, &key, BPF_F_INGRESS) != SK_PASS)
			why = COUNTER_TCP_ENDED;
	}
	if (why) {
		dissolve(pair, &key, why);
		return SK_PASS;
	}
	note_thread(own);
	if (flow)
		account(flow, end, msg->size);
	count_more(COUNTER_ACCELERATED_BYTES, msg->size);
	count(COUNTER_ACCELERATED_MESSAGES);
	return SK_PASS;
}

#endif
