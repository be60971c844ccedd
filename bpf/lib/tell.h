/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Events about flows and packets. */
#ifndef WEFT_LIB_TELL_H
#define WEFT_LIB_TELL_H

#include "event.h"
#include "flow.h"

/* What an event says besides what its flow does. */
struct telling {
	__u8 type;    /* enum event_type */
	__u8 verdict; /* enum verdict */
	__u8 reason;  /* enum reason */
	__u8 pad;     /* zero */
	__u32 rule;   /* 0: the one that let the flow through */
};

/* Who and what an event is about. */
static __always_inline void describe_flow(struct event *event, const struct flow_key *key, const struct flow *flow)
{
	__u32 opener = opener_of(flow), answerer = other(opener);
	/* Where both are local, the opener's side speaks. */
	__u32 side = either(!flow->interface[opener]);

	event->first_ns = flow->first_ns;
	event->source = key->addr[opener];
	event->destination = key->addr[answerer];
	event->bytes[0] = end_of(flow, opener)->bytes;
	event->bytes[1] = end_of(flow, answerer)->bytes;
	event->packets[0] = end_of(flow, opener)->packets;
	event->packets[1] = end_of(flow, answerer)->packets;
	event->source_port = key->port[opener];
	event->destination_port = key->port[answerer];
	event->protocol = key->protocol;
	event->source_identity = flow->identity[opener];
	event->destination_identity = flow->identity[answerer];
	event->rule = flow->rule[side];
	event->service = flow->service;
	event->backend = flow->backend;
	event->rtt_us = flow->rtt_us;
	event->retransmits = flow->retransmits;
	event->isn = flow->flags & FLOW_PICKED_UP ? 0 : flow->isn;
	event->interface = flow->interface[either(opener ^ side)];
	event->direction = side ? DIRECTION_INGRESS : DIRECTION_EGRESS;
	event->path = flow->flags & FLOW_ACCELERATED ? PATH_ACCELERATED : PATH_KERNEL;
	event->proxy = flow->proxy;
}

VERIFIED_ONCE int tell_flow(const struct flow_key *key, const struct flow *flow, const struct telling *telling)
{
	struct event *event;

	if (!key || !flow || !telling)
		return 0;
	event = reserve_event();
	if (!event)
		return 0;
	describe_flow(event, key, flow);
	event->type = telling->type;
	if (telling->rule)
		event->rule = telling->rule;
	event->verdict = telling->verdict;
	event->reason = telling->reason;
	submit_event(event);
	return 0;
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

/* About one packet: refused, or let through although an audited policy would have refused it. */
VERIFIED_ONCE int tell_packet(const struct passage *passage, const struct telling *telling)
{
	const struct party *source, *destination;
	const struct packet *packet;
	struct event *event;

	if (!passage || !telling)
		return 0;
	event = reserve_event();
	if (!event)
		return 0;
	packet = &passage->packet;
	source = passage->from_pod ? &passage->pod : &passage->peer;
	destination = passage->from_pod ? &passage->peer : &passage->pod;
	event->source = packet->source;
	event->destination = packet->destination;
	event->source_port = packet->source_port;
	event->destination_port = packet->destination_port;
	event->protocol = packet->protocol;
	event->type = telling->type;
	event->source_identity = source->identity;
	event->destination_identity = destination->identity;
	event->rule = passage->rule.id;
	if (telling->type == EVENT_AUDITED)
		event->audit = passage->rule.audit;
	event->interface = passage->interface;
	event->direction = passage->from_pod ? DIRECTION_EGRESS : DIRECTION_INGRESS;
	event->verdict = telling->verdict;
	event->reason = telling->reason;
	event->tcp_flags = packet->tcp_flags;
	if ((packet->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		event->isn = packet->sequence;
	event->proxy = passage->proxy;
	submit_event(event);
	return 0;
}

/* A pause that ends a burst: longer than the first timeout of most connections (RFC 6298), as what it sends again is one event. */
#define BURST_PAUSE_NS 1000000000ULL

/* A segment was sent again. A burst is told when the next one begins, or its connection ends. */
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
	if (burst)
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
	tell_burst(key, flow, burst);
	bpf_map_delete_elem(&bursts, &copy);
	return 0;
}

static __always_inline void sent_again(const struct flow_key *key, struct flow *flow)
{
	__sync_fetch_and_add(&flow->retransmits, 1);
	note_burst(key, flow);
}

static __always_inline void tell_open(const struct flow_key *key, struct flow *flow)
{
	struct telling telling = { .type = EVENT_OPEN, .verdict = VERDICT_ALLOW, .reason = flow->reason };

	if (flow_set(flow, FLOW_OPEN_TOLD))
		tell_flow(key, flow, &telling);
}

/* Tells a flow's end, if its beginning was told; true for the one that did. */
static __always_inline bool tell_end(const struct flow_key *key, struct flow *flow, const struct telling *telling)
{
	if (!flow_clear(flow, FLOW_OPEN_TOLD))
		return false;
	if (flow->retransmits)
		end_burst(key, flow);
	tell_flow(key, flow, telling);
	return true;
}

static __always_inline bool tell_close(const struct flow_key *key, struct flow *flow, enum reason reason)
{
	struct telling telling = { .type = EVENT_CLOSE, .verdict = VERDICT_ALLOW, .reason = reason };

	return tell_end(key, flow, &telling);
}

#endif
