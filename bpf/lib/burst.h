/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Segments that are sent again, told in bursts: each by one event, when the next one begins or its connection ends. */
#ifndef WEFT_LIB_BURST_H
#define WEFT_LIB_BURST_H

#include "describe.h"

/* What ends a burst: several timeouts of a connection within a network (RFC 6298; Linux begins at 200 ms) are one. */
#define BURST_PAUSE_NS 1000000000ULL

/* An earlier connection between these ports may have been forgotten before its burst was told. */
static __always_inline bool is_burst_of(const struct burst *burst, const struct flow *flow)
{
	return burst->first_ns >= flow->first_ns;
}

/*
 * On its caller's stack: another one would be too much for Linux 6.1. Of a key that the program was given, not of a copy on that stack:
 * the compiler knows how that is aligned, and computes places in it by OR, which the verifier refuses of pointers.
 */
static __always_inline void tell_burst(const struct flow_key *key, const struct flow *flow, const struct burst *burst)
{
	struct event *event = reserve_event();

	if (!event)
		return;
	describe_flow(event, key, flow);
	event->type = EVENT_RETRANSMITTED;
	event->verdict = VERDICT_ALLOW;
	event->retransmits = burst->segments;
	event->burst_ns = burst->first_ns;
	submit_event_of(event, burst->last_ns);
}

VERIFIED_ONCE int note_burst(const struct flow_key *key, const struct flow *flow)
{
	struct burst fresh = { .segments = 1 };
	struct flow_key copy;
	struct burst *burst;

	if (!key || !flow)
		return 0;
	copy = *key;
	fresh.first_ns = bpf_ktime_get_ns();
	fresh.last_ns = fresh.first_ns;
	burst = bpf_map_lookup_elem(&bursts, &copy);
	if (burst && fresh.last_ns - burst->last_ns < BURST_PAUSE_NS) {
		__sync_fetch_and_add(&burst->segments, 1);
		burst->last_ns = fresh.last_ns;
		return 0;
	}
	if (burst && is_burst_of(burst, flow))
		tell_burst(key, flow, burst);
	bpf_map_update_elem(&bursts, &copy, &fresh, BPF_ANY);
	return 0;
}

/* Tells the burst that the end of its connection has interrupted, if there is one. */
VERIFIED_ONCE int end_burst(const struct flow_key *key, const struct flow *flow)
{
	struct flow_key copy;
	struct burst *burst;

	if (!key || !flow)
		return 0;
	copy = *key;
	burst = bpf_map_lookup_elem(&bursts, &copy);
	if (!burst)
		return 0;
	if (is_burst_of(burst, flow))
		tell_burst(key, flow, burst);
	bpf_map_delete_elem(&bursts, &copy);
	return 0;
}

/* A segment was sent again. */
static __always_inline void sent_again(const struct flow_key *key, struct flow *flow)
{
	__sync_fetch_and_add(&flow->retransmits, 1);
	note_burst(key, flow);
}

#endif
