/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Connect timeouts. TCP_USER_TIMEOUT bounds a handshake as it bounds data: past it the kernel gives up, and connect() fails with
 * ETIMEDOUT. It belongs to the application, so it is given back with the handshake's end.
 *
 * The kernel looks at the clock only when it is about to repeat the SYN, for the first time after a second. For timeouts that are
 * not well above that it repeats it earlier, at half the time: one lost SYN is not a failure then either.
 */
#ifndef WEFT_LIB_HANDSHAKE_H
#define WEFT_LIB_HANDSHAKE_H

#include "../include/weft.h"
#include "../include/kernel.h"

#define SOL_TCP 6
#define TCP_USER_TIMEOUT 18
/* A SYN is repeated after one second (RFC 6298), and again a second or two later. */
#define OWN_PACE_MS 2000

static __always_inline void set_user_timeout(struct bpf_sock_ops *ctx, __u32 ms)
{
	int value = ms;

	bpf_setsockopt(ctx, SOL_TCP, TCP_USER_TIMEOUT, &value, sizeof(value));
}

static __always_inline void bound_handshake(struct bpf_sock_ops *ctx, struct socket_service *socket, struct tcp_sock *tcp)
{
	__u32 service = socket->service, own = ((struct inet_connection_sock *)tcp)->icsk_user_timeout;
	struct service_settings *settings = bpf_map_lookup_elem(&service_settings, &service);

	/* An application that is less patient stays so. */
	if (!settings || !settings->connect_ms || (own && own <= settings->connect_ms))
		return;
	socket->user_timeout_ms = own;
	socket->connect_ms = settings->connect_ms;
	set_user_timeout(ctx, settings->connect_ms);
}

/* When the first SYN is repeated, in ticks; 0 or less: as the kernel likes. */
static __always_inline __u32 first_retry(const struct socket_service *socket)
{
	__u32 ms = socket->connect_ms, ticks = (__u64)ms * config.tick_hz / 2000;

	if (!ms || ms >= OWN_PACE_MS)
		return 0;
	return ticks ? ticks : 1;
}

static __always_inline void unbound_handshake(struct bpf_sock_ops *ctx, struct socket_service *socket, struct tcp_sock *tcp)
{
	/* What the application has set meanwhile stays. */
	if (socket->connect_ms && ((struct inet_connection_sock *)tcp)->icsk_user_timeout == socket->connect_ms)
		set_user_timeout(ctx, socket->user_timeout_ms);
	socket->connect_ms = 0;
}

#endif
