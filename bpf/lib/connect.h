/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* connect() to a service: the socket goes to a backend, and remembers what the application asked for. */
#ifndef WEFT_LIB_CONNECT_H
#define WEFT_LIB_CONNECT_H

#include "../include/weft.h"
#include "../include/kernel.h"
#include "address.h"
#include "choose.h"
#include "counter.h"
#include "load.h"

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

static __always_inline int refuse(enum counter why)
{
	count(why);
	bpf_set_retval(-ECONNREFUSED);
	return SOCKET_REFUSE;
}

static __always_inline void fill_socket(struct socket_service *socket, const struct endpoint *vip, const struct choice *choice)
{
	socket->vip = vip->addr;
	socket->vip_port = vip->port;
	socket->addr = choice->addr;
	socket->port = choice->port;
	socket->backend = choice->backend;
	socket->service = choice->service;
}

/* Counted by sockops when the SYN leaves, and until the connection is closed. */
static __always_inline void remember_tcp(struct bpf_sock_addr *ctx, const struct endpoint *vip, const struct choice *choice)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct socket_service socket = {};

	fill_socket(&socket, vip, choice);
	if (bpf_map_update_elem(&connections, &cookie, &socket, BPF_ANY))
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

/* On SOCKET_ALLOW `user` is where to connect to. */
static __always_inline int connect_service(struct bpf_sock_addr *ctx, struct endpoint *user)
{
	struct service_key key = { .addr = user->addr, .port = user->port, .protocol = ctx->protocol };
	struct choice choice = {};

	switch (choose(&key, bpf_get_netns_cookie(ctx), &choice)) {
	case CHOICE_NO_SERVICE:
		forget(ctx);
		return SOCKET_ALLOW;
	case CHOICE_NO_BACKEND:
		forget(ctx);
		return refuse(COUNTER_REFUSED);
	case CHOICE_MADE:
		break;
	}
	if (ctx->protocol == IPPROTO_TCP)
		remember_tcp(ctx, user, &choice);
	else if (!remember_udp(ctx, user, &choice))
		return refuse(COUNTER_STORAGE_FAILURES);
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
	return bpf_map_lookup_elem(&connections, &cookie);
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
