/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Tells the agent what happened. It looks for itself, every 50 ms: to wake it for each connection would cost more than the connection. */
#ifndef WEFT_LIB_EVENT_H
#define WEFT_LIB_EVENT_H

#include "../include/weft.h"
#include "counter.h"

/* Room for an event, which has to be submitted; NULL if there is none: nothing waits for readers, the event is counted and gone. */
static __always_inline struct event *reserve_event(void)
{
	struct event *event;

	if (config.events_off)
		return NULL;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (event)
		__builtin_memset(event, 0, sizeof(*event));
	else
		count(COUNTER_EVENTS_LOST);
	return event;
}

static __always_inline void submit_event_of(struct event *event, __u64 time_ns)
{
	event->time_ns = time_ns;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void submit_event(struct event *event)
{
	submit_event_of(event, bpf_ktime_get_ns());
}

/* An event that was made elsewhere, as reserve_event(). */
static __always_inline void emit(struct event *event)
{
	if (config.events_off)
		return;
	event->time_ns = bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&events, event, sizeof(*event), BPF_RB_NO_WAKEUP))
		count(COUNTER_EVENTS_LOST);
}

#endif
