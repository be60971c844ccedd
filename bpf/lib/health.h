/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which backends are passed over for a while, because their connections failed.
 *
 * `ejected_until_ns` is the lock: whoever swaps it from 0 ejects, whoever swaps it to 0 takes back, and only they touch the
 * service's `ejected`. All other fields are hints; what two CPUs lose of them to one another is one failure in a row of failures.
 */
#ifndef WEFT_LIB_HEALTH_H
#define WEFT_LIB_HEALTH_H

#include "../include/weft.h"
#include "backend.h"
#include "event.h"

/* Stands in `ejected_until_ns` of an entry that is being deleted: nobody ejects through it any more. */
#define HEALTH_GONE 0xffffffffffffffffULL

/* Written where it is read: the functions that lead here leave too little of the stack to make an event there. */
static __noinline int tell_health(__u32 service, __u32 id, enum event_type type, enum reason why)
{
	struct backend *backend = backend_by_id(id);
	struct event *event = reserve_event();

	if (!event)
		return 0;
	event->protocol = IPPROTO_TCP;
	event->service = service;
	event->backend = id;
	event->type = type;
	event->reason = why;
	if (backend) {
		event->destination = backend->addr;
		event->destination_port = backend->port;
	}
	submit_event(event);
	return 0;
}

/* Ends an ejection that lasted until `until`; false: somebody else did. */
static __always_inline bool take_back(struct backend_health *health, __u64 until)
{
	struct service_state *state;
	__u32 service = health->service;

	if (__sync_val_compare_and_swap(&health->ejected_until_ns, until, 0) != until)
		return false;
	state = bpf_map_lookup_elem(&service_states, &service);
	if (state)
		__sync_fetch_and_add(&state->ejected, -1);
	return true;
}

static __always_inline bool is_ejected(__u32 id)
{
	struct backend_health *health = bpf_map_lookup_elem(&backend_health, &id);
	__u64 until = health ? *(volatile __u64 *)&health->ejected_until_ns : 0;

	return until && until != HEALTH_GONE && bpf_ktime_get_ns() < until;
}

/* It was chosen: if its time is over, it is back. Backends that nobody chooses are taken back by weft_tend. */
static __always_inline void welcome_back(__u32 id)
{
	struct backend_health *health = bpf_map_lookup_elem(&backend_health, &id);
	__u64 until = health ? *(volatile __u64 *)&health->ejected_until_ns : 0;

	if (until && bpf_ktime_get_ns() >= until && take_back(health, until))
		tell_health(health->service, id, EVENT_RETURNED, REASON_NONE);
}

static __always_inline bool any_ejected(__u32 service)
{
	struct service_state *state = bpf_map_lookup_elem(&service_states, &service);

	return state && state->ejected;
}

#endif
