/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a workload's policy says. The agent may change it meanwhile, see abi/policy.h: what was read counts if the workload still has
 * the set, and every rule looked at was of it.
 */
#ifndef WEFT_LIB_POLICY_H
#define WEFT_LIB_POLICY_H

#include "../include/weft.h"

/* One change overtakes a reader almost never, so many in a row only when the tables are broken. */
#define JUDGEMENT_ATTEMPTS 4

#define RULE_SEARCH_STEPS 17

struct question {
	__u32 interface; /* whose policy */
	__u32 egress;    /* 1: of what it opens, 0: of what is opened to it */
	__u32 peer;      /* identity of the other end */
	__u32 peer_flags;
	__u32 point;
};

static __always_inline __u32 policy_point(__u8 protocol, __be16 port)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return CLASS_TCP << 16 | bpf_ntohs(port);
	case IPPROTO_UDP:
		return CLASS_UDP << 16 | bpf_ntohs(port);
	case IPPROTO_SCTP:
		return CLASS_SCTP << 16 | bpf_ntohs(port);
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return CLASS_ICMP << 16;
	default:
		return CLASS_OTHER << 16;
	}
}

/* In which policies are as they are now: a flow judged in it needs no judgement. 0 while there are none. */
static __always_inline __u32 policy_epoch(void)
{
	__u32 zero = 0;
	struct policy_settings *settings = bpf_map_lookup_elem(&policy_settings, &zero);

	return settings ? settings->epoch : 0;
}

static __always_inline void answer(struct rule *rule, enum verdict verdict, enum reason reason)
{
	__builtin_memset(rule, 0, sizeof(*rule));
	rule->verdict = verdict;
	rule->reason = reason;
}

/* The last rule of the range that begins at or before the point; false if the range has been given to another set. */
static __always_inline bool find_rule(__u32 set, __u32 base, __u32 count, __u32 point, struct rule *found)
{
	struct rule *rule;

	for (int i = 0; i < RULE_SEARCH_STEPS && count > 1; i++) {
		__u32 half = count / 2, middle = base + half;

		rule = bpf_map_lookup_elem(&rules, &middle);
		if (!rule || rule->set != set)
			return false;
		if (rule->first <= point) {
			base = middle;
			count -= half;
		} else {
			count = half;
		}
	}
	rule = bpf_map_lookup_elem(&rules, &base);
	if (!rule)
		return false;
	*found = *rule;
	return found->set == set && found->first <= point;
}

static __always_inline bool judge_by_set(const struct policy_set *set, const struct question *question, struct rule *rule)
{
	struct peer_key key = { .set = set->id, .identity = question->peer };
	struct rule_range *range = bpf_map_lookup_elem(&peer_rules, &key);

	if (range)
		return find_rule(set->id, range->base, range->count, question->point, rule);
	return find_rule(set->id, set->base, set->count, question->point, rule);
}

/* Fills `rule` with what decides; one without id if no policy does. */
VERIFIED_ONCE int judge(const struct question *question, struct rule *rule)
{
	__u32 interface;

	if (!question || !rule)
		return 0;
	interface = question->interface;
	for (int attempt = 0; attempt < JUDGEMENT_ATTEMPTS; attempt++) {
		struct local_workload *workload = bpf_map_lookup_elem(&local_workloads, &interface);
		bool is_host = question->peer_flags & IDENTITY_HOST;
		struct policy_set set;

		if (!workload) {
			answer(rule, VERDICT_DENY, REASON_NOT_READY);
			return 0;
		}
		/* What Envoy judges, it judges for everybody; and it judges TCP alone. */
		if (is_host && (question->egress || !(workload->flags & WORKLOAD_LAYER7) || question->point >> 16 != CLASS_TCP)) {
			answer(rule, VERDICT_ALLOW, REASON_HOST);
			return 0;
		}
		set = question->egress ? workload->egress : workload->ingress;
		if (!set.id) {
			answer(rule, VERDICT_DENY, REASON_NOT_READY);
			return 0;
		}
		if (!judge_by_set(&set, question, rule))
			continue;
		workload = bpf_map_lookup_elem(&local_workloads, &interface);
		if (!workload || set.id != (question->egress ? workload->egress.id : workload->ingress.id))
			continue;
		if (is_host && rule->verdict != VERDICT_PROXY)
			answer(rule, VERDICT_ALLOW, REASON_HOST);
		return 0;
	}
	answer(rule, VERDICT_DENY, REASON_POLICY_CHANGING);
	return 0;
}

#endif
