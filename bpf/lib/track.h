/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What all protocols do with flows: begin, judge, promote, revoke. */
#ifndef WEFT_LIB_TRACK_H
#define WEFT_LIB_TRACK_H

#include "policy.h"
#include "tell.h"

/* Asks the pod's policy about a flow that `opener` opened; REASON_NONE, or why it is refused. The answer is in passage->rule. */
VERIFIED_ONCE int ask(struct passage *passage, __u32 opener)
{
	struct question question = {};

	if (!passage)
		return REASON_MALFORMED;
	if (passage->proxy == PROXY_DOWNSTREAM) {
		answer(&passage->rule, VERDICT_ALLOW, REASON_PROXY);
		return REASON_NONE;
	}
	question.interface = passage->interface;
	question.egress = !side_of(passage, opener);
	question.peer = passage->peer.identity;
	question.peer_flags = passage->peer.flags;
	question.point = policy_point(passage->key.protocol, passage->key.port[other(opener)]);
	judge(&question, &passage->rule);
	if (passage->rule.verdict == VERDICT_ALLOW)
		return REASON_NONE;
	/* A rule without reason is the agent's mistake: refused all the same. */
	return passage->rule.reason ? passage->rule.reason : REASON_POLICY;
}

/* Writes down in the flow that its policy lets it through, and who its ends are. */
static __always_inline void settle(struct flow *flow, struct passage *passage)
{
	__u32 side = side_of(passage, opener_of(flow)), pod = pod_end(passage), peer = other(pod);
	bool is_news = !flow->epoch[side] || flow->rule[side] != passage->rule.id;

	flow->rule[side] = passage->rule.id;
	flow->reason = passage->rule.reason;
	flow->identity[pod] = passage->pod.identity;
	flow->identity[peer] = passage->peer.identity;
	flow->interface[pod] = passage->pod.interface;
	flow->interface[peer] = passage->peer.interface;
	flow->epoch[side] = passage->epoch;
	passage->audited = passage->rule.audit && is_news;
}

static __always_inline bool is_judged(const struct flow *flow, const struct passage *passage)
{
	__u32 side = side_of(passage, opener_of(flow));

	return flow->epoch[side] == passage->epoch && flow->interface[pod_end(passage)] == passage->interface;
}

/*
 * Ends a flow between sockets that are alive: the agent closes them. While it cannot be told, the flow stays as it is, and the next
 * packet or sweep tries again; false then.
 */
static __always_inline bool shut(const struct flow_key *key, struct flow *flow, const struct telling *telling, __u64 now)
{
	__u32 reason = telling->reason;
	long error = bpf_map_update_elem(&closing_flows, key, &reason, BPF_NOEXIST);

	if (error && error != -EEXIST)
		return false;
	tell_end(key, flow, telling);
	if (key->protocol != IPPROTO_TCP) {
		bpf_map_delete_elem(&ct, key);
		return true;
	}
	flow->last_ns = now;
	flow->reason = reason;
	flow->state = FLOW_REVOKED;
	return true;
}

/* Shuts a flow that policy refuses now. */
static __always_inline bool revoke(const struct flow_key *key, struct flow *flow, const struct rule *rule, __u64 now)
{
	struct telling telling = {
		.type = EVENT_CLOSE,
		.verdict = VERDICT_DENY,
		.reason = REASON_REVOKED,
		.rule = rule->id,
	};

	return shut(key, flow, &telling, now);
}

/*
 * Lets the pod's policy judge an entry of `ct` unless it has. An entry may be deleted and its memory be another flow's while policy
 * is asked: only what is still in its place is written to.
 */
VERIFIED_ONCE int judge_tracked(struct passage *passage)
{
	struct flow_key key;
	struct flow *flow;
	enum reason reason;

	if (!passage)
		return REASON_MALFORMED;
	flow = find_flow(&ct, passage);
	if (!flow)
		return REASON_POLICY_CHANGING;
	passage->proxy = flow->proxy;
	if (is_judged(flow, passage))
		return REASON_NONE;
	reason = ask(passage, opener_of(flow));
	flow = find_flow(&ct, passage);
	if (!flow)
		return REASON_POLICY_CHANGING;
	if (!reason) {
		settle(flow, passage);
		return REASON_NONE;
	}
	key = passage->key;
	revoke(&key, flow, &passage->rule, passage->now);
	return REASON_REVOKED;
}

/* Likewise an entry of `ct_pending`: one that is refused is forgotten. */
VERIFIED_ONCE int judge_pending(struct passage *passage)
{
	struct flow *flow;
	enum reason reason;

	if (!passage)
		return REASON_MALFORMED;
	flow = find_flow(&ct_pending, passage);
	if (!flow)
		return REASON_POLICY_CHANGING;
	passage->proxy = flow->proxy;
	if (is_judged(flow, passage))
		return REASON_NONE;
	reason = ask(passage, opener_of(flow));
	if (reason) {
		forget_flow(&ct_pending, passage);
		return reason;
	}
	flow = find_flow(&ct_pending, passage);
	if (!flow)
		return REASON_POLICY_CHANGING;
	settle(flow, passage);
	return REASON_NONE;
}

static __always_inline enum reason is_full(void)
{
	count(COUNTER_CONNTRACK_FULL);
	return REASON_CONNTRACK_FULL;
}

/* A new flow that the sender of this packet opens, and that its pod's policy has let through. */
VERIFIED_ONCE int begin(struct passage *passage, __u32 flags)
{
	struct flow fresh = {}, *flow;
	const struct packet *packet;
	__u32 sender, receiver;

	if (!passage)
		return REASON_MALFORMED;
	packet = &passage->packet;
	sender = sender_of(passage);
	receiver = other(sender);
	fresh.first_ns = passage->now;
	fresh.flags = flags | (sender ? FLOW_FROM_END_1 : 0);
	fresh.isn = packet->sequence;
	fresh.proxy = passage->proxy;

	if (!put_flow(&ct_pending, passage, &fresh))
		return is_full();
	flow = find_flow(&ct_pending, passage);
	if (!flow)
		return is_full();
	end_of(flow, sender)->sent = packet->next;
	end_of(flow, sender)->acked = packet->acknowledged;
	end_of(flow, receiver)->sent = packet->acknowledged;
	end_of(flow, receiver)->acked = packet->sequence + 1;
	settle(flow, passage);
	count_packet(flow, passage);
	return REASON_NONE;
}

/* Moves a flow that has been answered from `ct_pending` to `ct`. */
static __always_inline enum reason promote(const struct passage *passage, struct flow *pending)
{
	if (!put_flow(&ct, passage, pending))
		return is_full();
	forget_flow(&ct_pending, passage);
	return REASON_NONE;
}

#endif
