/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What the way in which a connection ended says about its backend. */
#ifndef WEFT_LIB_OUTCOME_H
#define WEFT_LIB_OUTCOME_H

#include "../include/weft.h"
#include "../include/kernel.h"
#include "event.h"
#include "outlier.h"

/* Called with the state that the connection leaves for BPF_TCP_CLOSE. REASON_NONE: nothing is wrong with the backend. */
static __always_inline enum reason failure(struct bpf_sock_ops *ctx, const struct sock *sk, __u32 left)
{
	int error = sk->sk_err;

	if (left == BPF_TCP_SYN_SENT) {
		/* Closed by the agent because the backend went. */
		if (error == ECONNABORTED)
			return REASON_NONE;
		/* The application gave up: a failure if the backend had its chance, which a repeated SYN shows. */
		if (!error)
			return ctx->total_retrans ? REASON_CONNECT_TIMEOUT : REASON_NONE;
		return error == ETIMEDOUT ? REASON_CONNECT_TIMEOUT : REASON_CONNECT_REFUSED;
	}
	return error == ECONNRESET && !ctx->bytes_received ? REASON_RST : REASON_NONE;
}

static __noinline int tell_failed_connect(struct bpf_sock_ops *ctx, const struct socket_service *socket, enum reason why)
{
	struct event event = { .protocol = IPPROTO_TCP };

	event.type = EVENT_CLOSE;
	event.reason = why;
	event.direction = DIRECTION_EGRESS;
	event.verdict = VERDICT_ALLOW;
	event.source = socket->local;
	event.source_port = socket->local_port;
	event.destination = socket->addr;
	event.destination_port = socket->port;
	event.vip = socket->vip;
	event.vip_port = socket->vip_port;
	event.service = socket->service;
	event.backend = socket->backend;
	event.retransmits = ctx->total_retrans;
	emit(&event);
	return 0;
}

static __always_inline void count_timeout(__u32 service)
{
	struct service_state *state = bpf_map_lookup_elem(&service_states, &service);

	if (state)
		__sync_fetch_and_add(&state->timed_out, 1);
}

/* The connection of `socket` has come to its end. */
static __always_inline void conclude(struct bpf_sock_ops *ctx, const struct socket_service *socket, const struct sock *sk,
                                     __u32 left)
{
	enum reason why = failure(ctx, sk, left);

	if (left == BPF_TCP_SYN_SENT && why)
		tell_failed_connect(ctx, socket, why);
	if (why == REASON_CONNECT_TIMEOUT && (socket->flags & SERVICE_TIMED))
		count_timeout(socket->service);
	if (!(socket->flags & SERVICE_OUTLIER))
		return;
	if (why)
		backend_failed(socket->service, socket->backend, why);
	else if (left != BPF_TCP_SYN_SENT)
		backend_served(socket->backend);
}

#endif
