/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* When a flow has been silent, or open, for too long. */
#ifndef WEFT_LIB_AGE_H
#define WEFT_LIB_AGE_H

#include "flow.h"

#define SECOND_NS 1000000000ULL
#define NEVER_NS ((__s64)(~0ULL >> 1))

static __always_inline __s64 lesser(__s64 one, __s64 other)
{
	return one < other ? one : other;
}

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

/* Nanoseconds until so many seconds have passed, negative if they have. 0 seconds: never. */
static __always_inline __s64 time_left(__u64 since, __u32 seconds, __u64 now)
{
	/* Signed: a packet may have come after the sweep read the clock. */
	return seconds ? (__s64)(since + seconds * SECOND_NS - now) : NEVER_NS;
}

struct age {
	enum reason over; /* why the flow's time is over; REASON_NONE if it is not */
	__s64 left_ns;    /* until it is, if nothing comes */
};

static __always_inline struct age age_of(const struct flow_key *key, const struct flow *flow, const struct ct_settings *settings,
                                         __u64 now)
{
	bool is_open = flow->state == FLOW_ESTABLISHED || flow->state == FLOW_CLOSING;
	struct age age = { .over = REASON_NONE, .left_ns = time_left(flow->last_ns, idle_s(key, flow, settings), now) };
	__s64 life;

	if (age.left_ns < 0)
		age.over = flow->state == FLOW_NEW || flow->state == FLOW_SYN_RECEIVED ? REASON_NO_REPLY : REASON_IDLE;
	if (!is_open || !(flow->flags & FLOW_HAS_LIFETIME))
		return age;
	life = time_left(flow->first_ns, flow->lifetime_s, now);
	if (life < 0)
		age.over = REASON_MAX_DURATION;
	age.left_ns = lesser(age.left_ns, life);
	return age;
}

#endif
