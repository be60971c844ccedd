/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Flows of protocols without a handshake that is looked at: a reply makes them established. */
#ifndef WEFT_LIB_DATAGRAM_H
#define WEFT_LIB_DATAGRAM_H

#include "track.h"

/* An echo request from the end that another one was sent to, with the same identifier: one entry cannot stand for both. */
static __always_inline bool crosses(const struct passage *passage, const struct flow *flow)
{
	return passage->packet.opens && opener_of(flow) != sender_of(passage);
}

static __always_inline enum reason datagram_reply(struct passage *passage, struct flow *pending)
{
	enum reason reason = ensure_pending(passage, pending);

	if (reason)
		return reason;
	pending->state = FLOW_ESTABLISHED;
	count_packet(pending, passage);
	tell_open(&passage->key, pending);
	return promote(passage, pending);
}

VERIFIED_ONCE int datagram(struct passage *passage)
{
	struct flow *flow, *pending;
	enum reason reason;

	if (!passage)
		return REASON_MALFORMED;
	flow = find_tracked(passage);
	if (flow) {
		if (crosses(passage, flow))
			return ask(passage, passage->sender);
		reason = ensure_tracked(passage, flow);
		if (!reason)
			count_packet(flow, passage);
		return reason;
	}
	pending = find_flow(&ct_pending, passage);
	if (!pending || is_of_another_pod(pending, passage)) {
		reason = ask(passage, passage->sender);
		return reason ? reason : begin(passage, 0);
	}
	if (crosses(passage, pending))
		return ask(passage, passage->sender);
	if (opener_of(pending) != sender_of(passage))
		return datagram_reply(passage, pending);
	reason = ensure_pending(passage, pending);
	if (!reason)
		count_packet(pending, passage);
	return reason;
}

#endif
