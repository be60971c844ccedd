/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What all protocols do with flows: begin, judge, promote, revoke. */
#ifndef WEFT_LIB_TRACK_H
#define WEFT_LIB_TRACK_H

#include "mtls.h"
#include "policy.h"
#include "proxy_state.h"
#include "tell.h"

/*
 * Whether VERDICT_PROXY is complied with: it comes from Envoy, which has asked the policy, or is turned to Envoy here. That is what
 * becomes of a connection that Envoy opens for a service of layer 7, in the name of a pod of this node.
 */
static __always_inline bool goes_through_proxy(struct passage *passage)
{
	if ((passage->proxy & PROXY_COMPLIES) == PROXY_COMPLIES)
		return true;
	if ((passage->proxy & ~1) != PROXY_UPSTREAM_0 || (passage->packet.tcp_flags & TCP_STEP) != TCP_SYN ||
	    !passage->peer.interface)
		return false;
	passage->proxy |= PROXY_CHAINED_0;
	return true;
}

/*
 * Whether what is opened to the pod is plain text from another node, and the pod does not take that. What Envoy opens on this node is none,
 * and a node's word to its own pods (kubelet's probes) is always heard.
 */
static __always_inline bool is_refused_plain(const struct passage *passage)
{
	__u32 flags;

	if (passage->key.protocol != IPPROTO_TCP || passage->proxy || passage->peer.interface ||
	    passage->peer.flags & IDENTITY_HOST)
		return false;
	flags = mtls_flags();
	if (!(flags & MTLS_REQUIRES))
		return false;
	return requires_tunnel(&passage->key.addr[pod_end(passage)], passage->key.port[pod_end(passage)], flags);
}

/* Asks the pod's policy about a flow that `opener` opened; REASON_NONE, or why it is refused. The answer is in passage->rule. */
VERIFIED_ONCE int ask(struct passage *passage, __u32 opener)
{
	struct question question = {};

	if (!passage)
		return REASON_MALFORMED;
	question.interface = passage->interface;
	/* Judged where Envoy goes on; but a pod without policies reaches nobody. */
	if (passage->proxy == PROXY_DOWNSTREAM) {
		if (!bpf_map_lookup_elem(&local_workloads, &question.interface)) {
			answer(&passage->rule, VERDICT_DENY, REASON_NOT_READY);
			return REASON_NOT_READY;
		}
		answer(&passage->rule, VERDICT_ALLOW, REASON_PROXY);
		return REASON_NONE;
	}
	/* It carries what has been judged. */
	if (passage->proxy & PROXY_IS_CARRIER) {
		answer(&passage->rule, VERDICT_ALLOW, REASON_PROXY);
		return REASON_NONE;
	}
	question.egress = !side_of(passage, opener);
	if (!question.egress && is_refused_plain(passage)) {
		answer(&passage->rule, VERDICT_DENY, REASON_PLAIN_TEXT);
		return REASON_PLAIN_TEXT;
	}
	question.peer = passage->peer.identity;
	question.peer_flags = passage->peer.flags;
	/* What Envoy asks in its own name is let in by policies only, whichever end's packet is judged. */
	if (passage->proxy == PROXY_OWN)
		question.peer_flags &= ~IDENTITY_HOST;
	question.point = policy_point(passage->key.protocol, passage->key.port[other(opener)]);
	judge(&question, &passage->rule);
	if (passage->rule.verdict == VERDICT_ALLOW || (passage->rule.verdict == VERDICT_PROXY && goes_through_proxy(passage)))
		return REASON_NONE;
	if (passage->rule.verdict == VERDICT_PROXY && proxy_steering() & STEER_INBOUND && !is_proxy_ready())
		return REASON_PROXY_DOWN;
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
	flow->proxy = passage->proxy;
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
	int error = bpf_map_update_elem(&closing_flows, key, &reason, BPF_NOEXIST);

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

/* What a flow says of the way of its packets. */
static __always_inline void follow_flow(struct passage *passage, const struct flow *flow)
{
	passage->proxy = flow->proxy;
	passage->routed = flow->flags & FLOW_SHORT_CUT;
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
	follow_flow(passage, flow);
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
	revoke(&key, flow, &passage->rule, bpf_ktime_get_ns());
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
	follow_flow(passage, flow);
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

/* An entry of `ct`; what a pod that is gone has left there ends, and does not count. */
static __always_inline struct flow *find_tracked(struct passage *passage)
{
	struct flow *flow = find_flow(&ct, passage);

	if (!flow || !is_of_another_pod(flow, passage))
		return flow;
	tell_close(&passage->key, flow, REASON_BACKEND_GONE);
	forget_flow(&ct, passage);
	return NULL;
}

/* Deletes an entry of `ct`. On a stack of its own: a copy of the key on that of a program would be too much for Linux 6.1. */
VERIFIED_ONCE int forget_tracked(const struct passage *passage)
{
	if (passage)
		forget_flow(&ct, passage);
	return 0;
}

static __always_inline enum reason is_full(void)
{
	count(COUNTER_CONNTRACK_FULL);
	return REASON_CONNTRACK_FULL;
}

/* As judge_tracked(), where the entry is at hand: most have been judged, and are not looked for a second time. */
static __always_inline enum reason ensure_tracked(struct passage *passage, const struct flow *flow)
{
	follow_flow(passage, flow);
	return is_judged(flow, passage) ? REASON_NONE : judge_tracked(passage);
}

/* Likewise judge_pending(). */
static __always_inline enum reason ensure_pending(struct passage *passage, const struct flow *pending)
{
	follow_flow(passage, pending);
	return is_judged(pending, passage) ? REASON_NONE : judge_pending(passage);
}

static __always_inline void open_end(struct flow_end *end, const struct packet *packet, bool counted)
{
	end->sent = packet->next;
	end->acked = packet->acknowledged;
	end->bytes = counted ? packet->length : 0;
	end->packets = counted;
}

static __always_inline void answer_end(struct flow_end *end, const struct packet *packet)
{
	end->sent = packet->acknowledged;
	end->acked = packet->sequence + 1;
}

/* Both ends of a new flow, by branches: the verifier follows no pointer into the stack that is computed. */
static __always_inline void place_ends(struct flow *fresh, const struct passage *passage)
{
	const struct packet *packet = &passage->packet;
	/* As is_counted_here(). */
	bool counted = passage->from_pod || !passage->peer.interface || passes_once(passage->proxy);

	if (passage->sender & 1) {
		open_end(&fresh->end_1, packet, counted);
		answer_end(&fresh->end_0, packet);
	} else {
		open_end(&fresh->end_0, packet, counted);
		answer_end(&fresh->end_1, packet);
	}
	if (pod_end(passage)) {
		fresh->identity[1] = passage->pod.identity;
		fresh->interface[1] = passage->pod.interface;
		fresh->identity[0] = passage->peer.identity;
		fresh->interface[0] = passage->peer.interface;
	} else {
		fresh->identity[0] = passage->pod.identity;
		fresh->interface[0] = passage->pod.interface;
		fresh->identity[1] = passage->peer.identity;
		fresh->interface[1] = passage->peer.interface;
	}
}

/* A new flow that the sender of this packet opens, and that its pod's policy has let through. */
VERIFIED_ONCE int begin(struct passage *passage, __u32 flags)
{
	struct flow fresh = {};

	if (!passage)
		return REASON_MALFORMED;
	place_ends(&fresh, passage);
	fresh.first_ns = passage->now;
	fresh.last_ns = passage->now;
	fresh.flags = flags | (passage->sender & 1 ? FLOW_FROM_END_1 : 0) | (passage->routed ? FLOW_SHORT_CUT : 0);
	fresh.isn = passage->packet.sequence;
	fresh.reason = passage->rule.reason;
	fresh.proxy = passage->proxy;
	if (passage->from_pod) {
		fresh.epoch[0] = passage->epoch;
		fresh.rule[0] = passage->rule.id;
	} else {
		fresh.epoch[1] = passage->epoch;
		fresh.rule[1] = passage->rule.id;
	}
	passage->audited = passage->rule.audit;
	return put_flow(&ct_pending, passage, &fresh, BPF_ANY) ? is_full() : REASON_NONE;
}

/* Moves a flow that has been answered from `ct_pending` to `ct`. */
static __always_inline enum reason promote(const struct passage *passage, struct flow *pending)
{
	if (put_flow(&ct, passage, pending, BPF_ANY))
		return is_full();
	forget_flow(&ct_pending, passage);
	return REASON_NONE;
}

#endif
