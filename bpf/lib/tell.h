/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Events about flows and packets. */
#ifndef WEFT_LIB_TELL_H
#define WEFT_LIB_TELL_H

#include "burst.h"

/* What an event says besides what its flow does. */
struct telling {
	__u8 type;    /* enum event_type */
	__u8 verdict; /* enum verdict */
	__u8 reason;  /* enum reason */
	__u8 pad;     /* zero */
	__u32 rule;   /* 0: the one that let the flow through */
};

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
