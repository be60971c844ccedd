/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Who and what an event is about, where that is a flow. */
#ifndef WEFT_LIB_DESCRIBE_H
#define WEFT_LIB_DESCRIBE_H

#include "event.h"
#include "flow.h"

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
	event->path = is_accelerated(flow) ? PATH_ACCELERATED : PATH_KERNEL;
	event->proxy = flow->proxy;
}

#endif
