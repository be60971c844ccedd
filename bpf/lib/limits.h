/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How many connections a service takes from this node, and how fast. */
#ifndef WEFT_LIB_LIMITS_H
#define WEFT_LIB_LIMITS_H

#include "../include/weft.h"
#include "choose.h"
#include "load.h"

#define SECOND_NS 1000000000ULL
/* Each failed attempt is a token that somebody else took at that moment. */
#define TOKEN_ATTEMPTS 32

/*
 * A token bucket in one word (the generic cell rate algorithm of ITU-T I.371): the time at which the bucket will be full again.
 * A token puts that time off by as long as it takes to refill one; a bucket that would be full only after more than a second is
 * empty. One compare-and-swap takes the token, so none is lost and none is made between CPUs.
 */
static __always_inline bool take_token(__u64 *full_ns, __u32 per_second)
{
	__u64 now = bpf_ktime_get_ns(), cost = SECOND_NS / per_second;

	for (int attempt = 0; attempt < TOKEN_ATTEMPTS; attempt++) {
		__u64 was = *(volatile __u64 *)full_ns;
		__u64 full = (was > now ? was : now) + cost;

		if (full - now > SECOND_NS)
			return false;
		if (__sync_val_compare_and_swap(full_ns, was, full) == was)
			return true;
	}
	return false;
}

/* The place is taken before it is known to be free: of two that come for the last one, one gets it. */
static __always_inline bool enter_service(struct service_state *state, __u32 most)
{
	/* Spares a full service the writes. */
	if (most && *(volatile __u64 *)&state->open >= most)
		return false;
	if (__sync_fetch_and_add(&state->open, 1) < most || !most)
		return true;
	__sync_fetch_and_add(&state->open, -1);
	return false;
}

/*
 * Whether a service with SERVICE_LIMITED takes one more connection. REASON_NONE: it does, and SOCKET_HELD says that the
 * connection stands in its `open`. An unconnected UDP flow has no end that could be seen, so it only takes a token.
 */
static __noinline enum reason admit(struct choice *choice, bool has_end)
{
	__u32 service = choice->service;
	struct service_settings *settings = bpf_map_lookup_elem(&service_settings, &service);
	struct service_state *state = bpf_map_lookup_elem(&service_states, &service);

	/* The agent writes both before the flag: it has just taken the limits away. */
	if (!settings || !state)
		return REASON_NONE;
	if (has_end && !enter_service(state, settings->max_connections)) {
		__sync_fetch_and_add(&state->limited, 1);
		return REASON_CONNECTION_LIMIT;
	}
	if (settings->connections_per_second && !take_token(&state->full_ns, settings->connections_per_second)) {
		if (has_end)
			__sync_fetch_and_add(&state->open, -1);
		__sync_fetch_and_add(&state->rate_limited, 1);
		return REASON_RATE_LIMIT;
	}
	if (has_end)
		choice->flags |= SOCKET_HELD;
	return REASON_NONE;
}

#endif
