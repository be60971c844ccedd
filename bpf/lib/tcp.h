/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * TCP, step by step. A SYN always makes an entry of `ct_pending` and is judged as whoever sent it; the SYN-ACK that acknowledges it
 * moves that entry to `ct`, in place of an earlier connection between the same ports. Each function returns why the segment is
 * refused, REASON_NONE if it is not.
 */
#ifndef WEFT_LIB_TCP_H
#define WEFT_LIB_TCP_H

#include "track.h"

/* What a SYN may carry (TCP Fast Open) fits one segment. */
#define MAX_SYN_DATA 65535

/* The handshake's last ACK may be lost, and what follows it be seen first: at most the greatest window on (RFC 7323 2.3). */
#define MAX_WINDOW (1U << 30)

static __always_inline bool acknowledges_syn(const struct flow *flow, __u32 acknowledged)
{
	__u32 beyond = acknowledged - flow->isn - 1;

	return !beyond || (flow->flags & FLOW_SYN_DATA && beyond <= MAX_SYN_DATA);
}

/* How far the sender has come. */
static __always_inline void advance(struct flow *flow, const struct passage *passage)
{
	const struct packet *packet = &passage->packet;
	__u32 sender = sender_of(passage);

	if ((__s32)(packet->next - end_of(flow, sender)->sent) > 0)
		end_of(flow, sender)->sent = packet->next;
	else if (passage->from_pod && packet->next != packet->sequence)
		/* Only here is the order of segments that in which they were sent. */
		sent_again(&passage->key, flow);
	end_of(flow, sender)->acked = packet->acknowledged;
}

static __always_inline void restart(struct flow *flow, const struct passage *passage)
{
	const struct packet *packet = &passage->packet;
	__u32 sender = sender_of(passage);

	flow->first_ns = passage->now;
	flow->isn = packet->sequence;
	end_of(flow, sender)->sent = packet->next;
	end_of(flow, other(sender))->acked = packet->sequence + 1;
	flow->flags = (flow->flags & FLOW_HAS_LIFETIME) | (sender ? FLOW_FROM_END_1 : 0) |
	              (packet->next != packet->sequence + 1 ? FLOW_SYN_DATA : 0) | (passage->routed ? FLOW_SHORT_CUT : 0);
}

static __always_inline enum reason tcp_open(struct passage *passage, struct flow *flow)
{
	const struct packet *packet = &passage->packet;
	__u32 sender = sender_of(passage);
	__u32 routed = passage->routed;
	struct flow *pending;
	enum reason reason;

	/* The SYN-ACK to it, or the ACK to that, was lost. */
	if (flow && flow->isn == packet->sequence && opener_of(flow) == sender && flow->state <= FLOW_ESTABLISHED &&
	    !(flow->flags & FLOW_PICKED_UP)) {
		reason = ensure_tracked(passage, flow);
		if (reason)
			return reason;
		if (is_counted_here(passage, flow))
			sent_again(&passage->key, flow);
		count_packet(flow, passage);
		return REASON_NONE;
	}
	pending = find_flow(&ct_pending, passage);
	if (!pending || opener_of(pending) != sender || is_of_another_pod(pending, passage)) {
		reason = ask(passage, sender);
		if (reason)
			return reason;
		return begin(passage, packet->next != packet->sequence + 1 ? FLOW_SYN_DATA : 0);
	}
	/* What connect() has announced knows nothing of the policy at the other end. */
	if (passage->proxy & PROXY_IS_INBOUND && !pending->proxy)
		pending->proxy = passage->proxy;
	reason = ensure_pending(passage, pending);
	if (reason)
		return reason;
	if (pending->isn != packet->sequence || !end_of(pending, sender)->sent) {
		passage->routed = routed;
		restart(pending, passage);
	} else if (is_counted_here(passage, pending)) {
		sent_again(&passage->key, pending);
	}
	count_packet(pending, passage);
	return REASON_NONE;
}

/* Moves a flow to `ct` that a SYN-ACK has answered; an earlier connection between these ports ends with that. */
static __always_inline enum reason replace(struct passage *passage, struct flow *pending)
{
	int error = put_flow(&ct, passage, pending, BPF_NOEXIST);
	struct flow *earlier;

	if (error == -EEXIST) {
		earlier = find_tracked(passage);
		if (earlier)
			tell_close(&passage->key, earlier, REASON_RST);
		error = put_flow(&ct, passage, pending, BPF_ANY);
	}
	if (error)
		return is_full();
	forget_flow(&ct_pending, passage);
	return REASON_NONE;
}

/* Whether a SYN-ACK answers this flow of `ct_pending`. */
static __always_inline bool is_answer_to(const struct flow *pending, const struct passage *passage)
{
	return opener_of(pending) == other(sender_of(passage)) && !(pending->flags & FLOW_PICKED_UP) &&
	       acknowledges_syn(pending, passage->packet.acknowledged);
}

/* A SYN-ACK sent again. */
static __always_inline enum reason tcp_answer_again(struct passage *passage)
{
	struct flow *flow = find_tracked(passage);
	enum reason reason;

	if (!flow || opener_of(flow) == sender_of(passage) || flow->state >= FLOW_CLOSED ||
	    !acknowledges_syn(flow, passage->packet.acknowledged))
		return REASON_TCP_HANDSHAKE;
	reason = ensure_tracked(passage, flow);
	if (reason)
		return reason;
	if (is_counted_here(passage, flow))
		sent_again(&passage->key, flow);
	count_packet(flow, passage);
	return REASON_NONE;
}

/* A SYN-ACK; `pending`: what `ct_pending` has between its ports, or NULL. */
static __always_inline enum reason tcp_answer(struct passage *passage, struct flow *pending)
{
	const struct packet *packet = &passage->packet;
	__u32 sender = sender_of(passage), opener = other(sender);
	enum reason reason;

	if (!pending || !is_answer_to(pending, passage))
		return tcp_answer_again(passage);
	reason = ensure_pending(passage, pending);
	if (reason)
		return reason;
	/* Of a SYN that was sent again it is not known which one is answered (Karn). */
	if (!pending->retransmits)
		pending->rtt_us = (passage->now - pending->first_ns) / 1000;
	pending->state = FLOW_SYN_RECEIVED;
	end_of(pending, sender)->sent = packet->next;
	end_of(pending, sender)->acked = packet->acknowledged;
	end_of(pending, opener)->acked = packet->next;
	count_packet(pending, passage);
	/* Envoy's packets to another node pass no pod's interface: its part of the handshake is not seen. */
	if (is_upstream(pending->proxy) && pod_end(passage) == opener) {
		pending->state = FLOW_ESTABLISHED;
		tell_open(&passage->key, pending);
	}
	return replace(passage, pending);
}

/*
 * An RST is believed if it lies where the sender stands: between what the other end has acknowledged and what was last sent. Others
 * pass, as the receiver may know better, but end nothing: nobody who guesses can make this node forget a connection.
 */
static __always_inline bool is_believable(const struct flow *flow, const struct passage *passage)
{
	__u32 sender = sender_of(passage), from = end_of(flow, other(sender))->acked;

	return passage->packet.sequence - from <= end_of(flow, sender)->sent - from;
}

static __always_inline enum reason tcp_reset(struct passage *passage, struct flow *flow)
{
	if (flow->state == FLOW_REVOKED || !is_believable(flow, passage))
		return REASON_NONE;
	count_packet(flow, passage);
	if (is_last_here(passage, flow)) {
		tell_close(&passage->key, flow, REASON_RST);
		forget_tracked(passage);
	}
	return REASON_NONE;
}

static __always_inline void tcp_finish(struct passage *passage, struct flow *flow)
{
	__u8 mine = sender_of(passage) ? FLOW_FIN_1 : FLOW_FIN_0;

	flow_set(flow, mine);
	if ((flow->flags & (FLOW_FIN_0 | FLOW_FIN_1)) == (FLOW_FIN_0 | FLOW_FIN_1)) {
		flow->state = FLOW_CLOSED;
		tell_close(&passage->key, flow, REASON_FIN);
	} else {
		flow->state = FLOW_CLOSING;
	}
}

/*
 * An end that is reset while packets of its peer were dropped sees an RST from beyond what it has, and asks back by a bare ACK (RFC 5961
 * 3.2). Who has closed already answers that with an RST which fits: without it that end would stay open for good.
 */
static __always_inline bool is_bare_ack(const struct packet *packet)
{
	return (packet->tcp_flags & TCP_STEP) == TCP_ACK && packet->next == packet->sequence;
}

/* A segment of a connection in `ct` that is no SYN. */
static __always_inline enum reason tcp_continue(struct passage *passage, struct flow *flow)
{
	const struct packet *packet = &passage->packet;
	__u32 sender = sender_of(passage);
	enum reason reason;

	if (packet->tcp_flags & TCP_RST)
		return tcp_reset(passage, flow);
	if (flow->state == FLOW_REVOKED)
		return is_bare_ack(packet) ? REASON_NONE : REASON_REVOKED;
	reason = ensure_tracked(passage, flow);
	if (reason)
		return reason;
	/* The rest of the good-bye: what was sent may have to be sent again, but nothing new. */
	if (flow->state == FLOW_CLOSED && (__s32)(packet->next - end_of(flow, sender)->sent) > 0)
		return REASON_TCP_HANDSHAKE;
	if (flow->state == FLOW_SYN_RECEIVED && sender == opener_of(flow)) {
		if (packet->sequence - flow->isn - 1 >= MAX_WINDOW)
			return REASON_TCP_HANDSHAKE;
		flow->state = FLOW_ESTABLISHED;
	}
	advance(flow, passage);
	count_packet(flow, passage);
	if (flow->state == FLOW_ESTABLISHED)
		tell_open(&passage->key, flow);
	if (packet->tcp_flags & TCP_FIN && flow->state != FLOW_CLOSED)
		tcp_finish(passage, flow);
	return REASON_NONE;
}

static __always_inline enum reason tcp_reset_pending(struct passage *passage, struct flow *pending)
{
	const struct packet *packet = &passage->packet;
	bool ends;

	if (pending->flags & FLOW_PICKED_UP) {
		ends = is_believable(pending, passage);
	} else if (opener_of(pending) == sender_of(passage)) {
		ends = packet->sequence - pending->isn <= 1;
	} else {
		ends = packet->tcp_flags & TCP_ACK && acknowledges_syn(pending, packet->acknowledged);
		if (!ends)
			return REASON_TCP_HANDSHAKE;
	}
	if (ends && is_last_here(passage, pending))
		forget_flow(&ct_pending, passage);
	return REASON_NONE;
}

/* A segment without SYN of a connection that nobody has answered yet. */
static __always_inline enum reason tcp_half_open(struct passage *passage, struct flow *pending)
{
	const struct packet *packet = &passage->packet;
	bool is_opener = opener_of(pending) == sender_of(passage);
	enum reason reason;

	if (packet->tcp_flags & TCP_RST)
		return tcp_reset_pending(passage, pending);
	/* A server that still has an earlier connection between these ports answers a SYN with a bare ACK (RFC 5961 4.2). */
	if (!(pending->flags & FLOW_PICKED_UP) && (is_opener || packet->tcp_flags & TCP_FIN))
		return REASON_TCP_HANDSHAKE;
	reason = ensure_pending(passage, pending);
	if (reason)
		return reason;
	count_packet(pending, passage);
	if (!(pending->flags & FLOW_PICKED_UP))
		return REASON_NONE;
	advance(pending, passage);
	if (is_opener)
		return REASON_NONE;
	pending->state = FLOW_ESTABLISHED;
	tell_open(&passage->key, pending);
	if (packet->tcp_flags & TCP_FIN)
		tcp_finish(passage, pending);
	return promote(passage, pending);
}

/* A segment without SYN of no connection that is known: perhaps one older than this program. */
static __always_inline enum reason tcp_pick_up(struct passage *passage)
{
	enum reason reason = ask(passage, passage->sender);

	/* The stack has seen what was before. */
	passage->routed = 0;
	if (reason || passage->packet.tcp_flags & TCP_RST)
		return reason;
	return begin(passage, FLOW_PICKED_UP);
}

VERIFIED_ONCE int tcp(struct passage *passage)
{
	struct flow *flow, *pending;

	if (!passage)
		return REASON_MALFORMED;
	switch (passage->packet.tcp_flags & TCP_STEP) {
	case TCP_SYN:
		return tcp_open(passage, find_tracked(passage));
	case TCP_SYN | TCP_ACK:
		return tcp_answer(passage, find_flow(&ct_pending, passage));
	case TCP_ACK:
	case TCP_FIN | TCP_ACK:
	case TCP_RST:
	case TCP_RST | TCP_ACK:
		break;
	default:
		return REASON_TCP_FLAGS;
	}
	flow = find_tracked(passage);
	if (flow) {
		follow_flow(passage, flow);
		return tcp_continue(passage, flow);
	}
	pending = find_flow(&ct_pending, passage);
	if (pending && !is_of_another_pod(pending, passage)) {
		follow_flow(passage, pending);
		return tcp_half_open(passage, pending);
	}
	return tcp_pick_up(passage);
}

/* A segment whose flow has been judged: `flow` is of `ct`, or for a SYN-ACK of `ct_pending`. */
static __always_inline enum reason tcp_judged(struct passage *passage, struct flow *flow)
{
	switch (passage->packet.tcp_flags & TCP_STEP) {
	case TCP_SYN | TCP_ACK:
		passage->now = bpf_ktime_get_ns();
		return tcp(passage);
	case TCP_ACK:
	case TCP_FIN | TCP_ACK:
	case TCP_RST:
	case TCP_RST | TCP_ACK:
		return tcp_continue(passage, flow);
	default:
		return REASON_TCP_FLAGS;
	}
}

#endif
