/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Ages flows, and judges those that no packet brings before the judge. Runs beside the programs that use the tables; nobody waits. */
#ifndef WEFT_LIB_SWEEP_H
#define WEFT_LIB_SWEEP_H

#include "age.h"
#include "identity.h"
#include "nat_sweep.h"
#include "track.h"

struct bpf_map;

struct sweeping {
	struct ct_settings settings;
	struct sweep *told;
	__u64 now;
	__u32 epoch;
	__u32 pad; /* zero */
};

/* The memory of a key is the entry's, and helpers may not be given it to keep: events are told from a copy. */
static __always_inline void tell_expired(const struct flow_key *key, struct flow *flow, enum reason reason)
{
	struct telling telling = { .type = EVENT_EXPIRED, .verdict = VERDICT_ALLOW, .reason = reason };
	struct flow_key copy = *key;

	if (flow->retransmits)
		end_burst(&copy, flow);
	tell_flow(&copy, flow, &telling);
}

static __always_inline bool is_open(const struct flow *flow)
{
	return flow->state == FLOW_ESTABLISHED || flow->state == FLOW_CLOSING;
}

/*
 * Sockets are closed where a person asked for it, and for all of TCP, which would wait for a peer whose packets are refused from now
 * on. A UDP socket that was idle for longer than the default simply begins a new flow.
 */
static __always_inline bool has_sockets_to_close(const struct flow_key *key, const struct flow *flow, enum reason reason)
{
	if (!is_open(flow))
		return false;
	if (key->protocol == IPPROTO_TCP)
		return true;
	return key->protocol == IPPROTO_UDP && (flow->idle_s || reason == REASON_MAX_DURATION);
}

static __always_inline void expire(const struct flow_key *key, struct flow *flow, enum reason reason, struct sweeping *sweeping)
{
	struct telling telling = { .type = EVENT_EXPIRED, .verdict = VERDICT_ALLOW, .reason = reason };
	struct flow_key copy = *key;

	if (has_sockets_to_close(key, flow, reason)) {
		if (shut(&copy, flow, &telling, sweeping->now))
			sweeping->told->expired++;
		else
			sweeping->told->unread++;
		return;
	}
	if (is_open(flow))
		tell_end(&copy, flow, &telling);
	else if (flow->state == FLOW_SYN_RECEIVED)
		tell_expired(&copy, flow, reason);
	bpf_map_delete_elem(&ct, &copy);
	sweeping->told->expired++;
}

/* Whether the pod that was at this end is not there any more. */
static __always_inline bool is_gone(const struct flow *flow, __u32 end, const struct party *now)
{
	return flow->interface[end] && flow->interface[end] != now->interface;
}

/* As is_refused_plain(). */
static __always_inline bool is_plain_from_elsewhere(const struct flow_key *key, const struct flow *flow, const struct party *peer,
                                                    __u32 pod)
{
	__u32 flags = mtls_flags();
	struct weft_addr addr;

	if (!(flags & MTLS_REQUIRES) || key->protocol != IPPROTO_TCP || flow->proxy || peer->interface ||
	    peer->flags & IDENTITY_HOST)
		return false;
	addr = key->addr[pod];
	return requires_tunnel(&addr, key->port[pod], flags);
}

/* The judgement of one side by the policy of the pod there. Not ready: its pod has no policy to judge by at the moment. */
VERIFIED_ONCE int judge_idle(const struct flow_key *key, struct flow *flow, __u32 side, struct rule *rule)
{
	__u32 opener, pod_end, peer_end;
	struct question question = {};
	struct party pod, peer;
	struct weft_addr addr;

	if (!key || !flow || !rule)
		return REASON_NOT_READY;
	opener = opener_of(flow);
	pod_end = either(opener ^ side);
	peer_end = other(pod_end);
	addr = key->addr[pod_end];
	identify(&addr, &pod);
	addr = key->addr[peer_end];
	identify(&addr, &peer);
	if (is_gone(flow, pod_end, &pod) || is_gone(flow, peer_end, &peer))
		return REASON_BACKEND_GONE;
	question.interface = pod.interface;
	question.egress = !side;
	question.peer = peer.identity;
	question.peer_flags = flow->proxy == PROXY_OWN ? peer.flags & ~IDENTITY_HOST : peer.flags;
	question.point = policy_point(key->protocol, key->port[other(opener)]);
	judge(&question, rule);
	if (side && is_plain_from_elsewhere(key, flow, &peer, pod_end)) {
		answer(rule, VERDICT_DENY, REASON_PLAIN_TEXT);
		return REASON_REVOKED;
	}
	if (rule->verdict == VERDICT_ALLOW ||
	    (rule->verdict == VERDICT_PROXY && (flow->proxy & PROXY_COMPLIES) == PROXY_COMPLIES)) {
		flow->identity[peer_end] = peer.identity;
		flow->interface[peer_end] = peer.interface;
		flow->rule[either(side)] = rule->id;
		return REASON_NONE;
	}
	if (rule->reason == REASON_NOT_READY || rule->reason == REASON_POLICY_CHANGING)
		return rule->reason;
	return REASON_REVOKED;
}

/* False if that was the end of it. */
static __always_inline bool judge_side(const struct flow_key *key, struct flow *flow, __u32 side, struct sweeping *sweeping)
{
	struct flow_key copy;
	struct rule rule = {};

	if (!flow->epoch[side] || flow->epoch[side] == sweeping->epoch || flow->state >= FLOW_CLOSED)
		return true;
	/* Judged where Envoy goes on. */
	if (flow->proxy == PROXY_DOWNSTREAM || flow->proxy & PROXY_IS_CARRIER)
		return true;
	copy = *key;
	switch (judge_idle(&copy, flow, side, &rule)) {
	case REASON_NONE:
		flow->epoch[side] = sweeping->epoch;
		return true;
	case REASON_BACKEND_GONE:
		/* Envoy must not use it for whoever has the address next. */
		if (is_upstream(flow->proxy) && is_open(flow)) {
			expire(key, flow, REASON_BACKEND_GONE, sweeping);
			return false;
		}
		tell_close(&copy, flow, REASON_BACKEND_GONE);
		bpf_map_delete_elem(&ct, &copy);
		sweeping->told->expired++;
		return false;
	case REASON_REVOKED:
		if (revoke(&copy, flow, &rule, sweeping->now))
			sweeping->told->revoked++;
		else
			sweeping->told->unread++;
		return false;
	default:
		/* Its pod gets its policy any moment. */
		sweeping->told->due_ns = 0;
		return true;
	}
}

static __always_inline void wait_for(const struct age *age, struct sweeping *sweeping)
{
	sweeping->told->due_ns = lesser(sweeping->told->due_ns, age->left_ns);
}

static long sweep_tracked(struct bpf_map *map, const struct flow_key *key, struct flow *flow, struct sweeping *sweeping)
{
	struct age age = age_of(key, flow, &sweeping->settings, sweeping->now);

	sweeping->told->swept++;
	if (age.over) {
		expire(key, flow, age.over, sweeping);
		return 0;
	}
	wait_for(&age, sweeping);
	if (judge_side(key, flow, 0, sweeping))
		judge_side(key, flow, 1, sweeping);
	return 0;
}

static long sweep_pending(struct bpf_map *map, const struct flow_key *key, struct flow *flow, struct sweeping *sweeping)
{
	struct age age = age_of(key, flow, &sweeping->settings, sweeping->now);

	sweeping->told->swept++;
	sweeping->told->pending++;
	if (!age.over) {
		wait_for(&age, sweeping);
		return 0;
	}
	/* connect() made an entry, and no packet followed: there is nothing to tell. */
	if (end_of(flow, 0)->packets || end_of(flow, 1)->packets)
		tell_expired(key, flow, REASON_NO_REPLY);
	bpf_map_delete_elem(&ct_pending, key);
	sweeping->told->expired++;
	return 0;
}

static __always_inline void sweep_all(void)
{
	__u32 zero = 0;
	struct ct_settings *settings = bpf_map_lookup_elem(&ct_settings, &zero);
	struct sweeping sweeping = { .now = bpf_ktime_get_ns(), .epoch = policy_epoch() };
	struct sweep none = { .due_ns = NEVER_NS };

	sweeping.told = bpf_map_lookup_elem(&sweeps, &zero);
	if (!settings || !sweeping.told)
		return;
	*sweeping.told = none;
	sweeping.settings = *settings;
	bpf_for_each_map_elem(&ct, sweep_tracked, &sweeping, 0);
	bpf_for_each_map_elem(&ct_pending, sweep_pending, &sweeping, 0);
	sweep_outside(&sweeping.settings, sweeping.told);
}

#endif
