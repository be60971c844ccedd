/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* When a flow has been silent, or open, for too long. */
#ifndef WEFT_LIB_AGE_H
#define WEFT_LIB_AGE_H

#include "flow.h"

#define SECOND_NS 1000000000ULL

static __always_inline __u32 tcp_idle_s(const struct flow *flow, const struct ct_settings *settings)
{
	switch (flow->state) {
	case FLOW_NEW:
	case FLOW_SYN_RECEIVED:
		return settings->tcp_new_s;
	case FLOW_ESTABLISHED:
		return flow->idle_s ? flow->idle_s : settings->tcp_established_s;
	case FLOW_CLOSING:
		return settings->tcp_closing_s;
	default:
		return settings->tcp_closed_s;
	}
}

static __always_inline __u32 idle_s(const struct flow_key *key, const struct flow *flow, const struct ct_settings *settings)
{
	if (key->protocol == IPPROTO_TCP)
		return tcp_idle_s(flow, settings);
	if (flow->state != FLOW_NEW && flow->idle_s)
		return flow->idle_s;
	if (key->protocol != IPPROTO_UDP)
		return settings->other_s;
	return flow->state == FLOW_NEW ? settings->udp_new_s : settings->udp_established_s;
}

/* 0 seconds: never. */
static __always_inline bool has_passed(__u64 since, __u32 seconds, __u64 now)
{
	/* Signed: a packet may have come after the sweep read the clock. */
	return seconds && (__s64)(now - since) > (__s64)(seconds * SECOND_NS);
}

/* Why the flow's time is over; REASON_NONE if it is not. */
static __always_inline enum reason is_over(const struct flow_key *key, const struct flow *flow, const struct ct_settings *settings,
                                           __u64 now)
{
	bool is_open = flow->state == FLOW_ESTABLISHED || flow->state == FLOW_CLOSING;

	if (is_open && flow->flags & FLOW_HAS_LIFETIME && has_passed(flow->first_ns, flow->lifetime_s, now))
		return REASON_MAX_DURATION;
	if (!has_passed(flow->last_ns, idle_s(key, flow, settings), now))
		return REASON_NONE;
	return flow->state == FLOW_NEW || flow->state == FLOW_SYN_RECEIVED ? REASON_NO_REPLY : REASON_IDLE;
}

#endif
