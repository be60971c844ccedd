/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* connect() to a service: the socket goes to a backend, and remembers what the application asked for. */
#ifndef WEFT_LIB_CONNECT_H
#define WEFT_LIB_CONNECT_H

#include "../include/weft.h"
#include "../include/kernel.h"
#include "address.h"
#include "choose.h"
#include "connection.h"
#include "counter.h"
#include "limits.h"
#include "load.h"
#include "proxy_connect.h"
#include "refuse.h"

/*
 * A UDP socket may be connected again, elsewhere: what it remembers of the last time must not be shown then. A TCP socket's entry
 * ends with its connection, and one that never came about is told by its address.
 */
static __always_inline void forget(struct bpf_sock_addr *ctx)
{
	struct socket_service *socket;

	if (ctx->protocol == IPPROTO_TCP)
		return;
	socket = bpf_sk_storage_get(&sockets, ctx->sk, NULL, 0);
	if (!socket)
		return;
	load_remove(socket);
	bpf_sk_storage_delete(&sockets, ctx->sk);
}

static __always_inline void fill_socket(struct socket_service *socket, const struct endpoint *vip, const struct choice *choice)
{
	socket->vip = vip->addr;
	socket->vip_port = vip->port;
	socket->addr = choice->addr;
	socket->port = choice->port;
	socket->backend = choice->backend;
	socket->service = choice->service;
	socket->flags = choice->flags;
}

/* An earlier connect() of this socket may have come to nothing before its SYN left: nobody saw its end. */
static __always_inline void forget_tcp(__u64 cookie)
{
	struct socket_service *earlier = connection_of(cookie);

	if (!earlier)
		return;
	load_remove(earlier);
	remove_connection(earlier);
}

/* Counted by sockops when the SYN leaves, and until the connection is closed. */
static __always_inline void remember_tcp(struct bpf_sock_addr *ctx, const struct endpoint *vip, const struct choice *choice)
{
	struct socket_service socket = { .cookie = bpf_get_socket_cookie(ctx) };

	forget_tcp(socket.cookie);
	fill_socket(&socket, vip, choice);
	if (!add_connection(&socket))
		return;
	load_remove(&socket);
	count(COUNTER_UNTRACKED);
}

static __always_inline bool remember_udp(struct bpf_sock_addr *ctx, const struct endpoint *vip, const struct choice *choice)
{
	struct socket_service *socket = bpf_sk_storage_get(&sockets, ctx->sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (!socket)
		return false;
	load_remove(socket);
	fill_socket(socket, vip, choice);
	load_add(socket);
	return true;
}

/* Before the limits are asked, the socket leaves the place that it may hold already. */
static __always_inline enum reason admit_socket(struct bpf_sock_addr *ctx, struct choice *choice)
{
	if (!(choice->flags & SERVICE_LIMITED))
		return REASON_NONE;
	if (ctx->protocol == IPPROTO_TCP)
		forget_tcp(bpf_get_socket_cookie(ctx));
	else
		forget(ctx);
	return admit(choice, true);
}

/* On SOCKET_ALLOW `user` is where to connect to. */
static __always_inline int connect_service(struct bpf_sock_addr *ctx, struct endpoint *user)
{
	struct service_key key = { .addr = user->addr, .port = user->port, .protocol = ctx->protocol };
	struct choice choice = {};
	enum reason why;

	switch (choose(&key, bpf_get_netns_cookie(ctx), &choice)) {
	case CHOICE_NO_SERVICE:
		forget(ctx);
		return is_by_proxy(ctx) ? connect_upstream(ctx, user) : SOCKET_ALLOW;
	case CHOICE_PROXIED:
		return connect_downstream(user, choice.service);
	case CHOICE_NO_BACKEND:
		forget(ctx);
		tell_refused(user, choice.service, ctx->protocol, REASON_NO_BACKEND);
		return refuse(COUNTER_REFUSED);
	case CHOICE_MADE:
		/* What comes out of a tunnel goes to pods of this node, and by no service to others. */
		if (is_by_proxy(ctx) && ctx->sk->mark != MARK_BY_PROXY)
			return connect_upstream(ctx, user);
		break;
	}
	why = admit_socket(ctx, &choice);
	if (why) {
		tell_refused(user, choice.service, ctx->protocol, why);
		return refuse(COUNTER_LIMITED);
	}
	if (ctx->protocol == IPPROTO_TCP) {
		remember_tcp(ctx, user, &choice);
	} else if (!remember_udp(ctx, user, &choice)) {
		if (choice.flags & SOCKET_HELD)
			leave_service(choice.service);
		return refuse(COUNTER_STORAGE_FAILURES);
	}
	user->addr = choice.addr;
	user->port = choice.port;
	count(COUNTER_CONNECTIONS);
	return SOCKET_ALLOW;
}

/*
 * Whether sockops follows this connection, as it does those to services. accept() asks for the peer too, on every socket of every
 * server: this spares those a look into a hash.
 */
static __always_inline bool is_followed(struct bpf_sock *sk)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	return tcp && (tcp->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_STATE_CB_FLAG);
}

static __always_inline struct socket_service *connected_socket(struct bpf_sock_addr *ctx)
{
	__u64 cookie;

	if (ctx->protocol != IPPROTO_TCP)
		return bpf_sk_storage_get(&sockets, ctx->sk, NULL, 0);
	if (!is_followed(ctx->sk))
		return NULL;
	cookie = bpf_get_socket_cookie(ctx);
	return connection_of(cookie);
}

/* Shows the service address where the backend's would be seen. */
static __always_inline bool connected_vip(struct bpf_sock_addr *ctx, struct endpoint *user)
{
	struct socket_service *socket = connected_socket(ctx);

	if (!socket || socket->port != user->port || !addr_equal(&socket->addr, &user->addr))
		return false;
	user->addr = socket->vip;
	user->port = socket->vip_port;
	return true;
}

#endif
