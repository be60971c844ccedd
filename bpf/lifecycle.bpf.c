/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* From the first SYN to the last state of a TCP connection, and the end of a socket: what counts as open, and how it went. */
#include "include/weft.h"
#include "include/kernel.h"
#include "lib/address.h"
#include "lib/connection.h"
#include "lib/handshake.h"
#include "lib/load.h"
#include "lib/origin.h"
#include "lib/proxy_origin.h"
#include "lib/outcome.h"
#include "lib/rtt.h"
#include "lib/socket.h"

/* Connections of services with any of these are looked at between their first SYN and their end; others cost nothing there. */
#define WATCHED (SERVICE_TIMED | SERVICE_OUTLIER | SERVICE_RTT)
/* Marks their sockets, where no look-up is needed to see it. It also asks to be told of retransmissions, which are few. */
#define WATCHED_CB_FLAG BPF_SOCK_OPS_RTO_CB_FLAG

/* From so many on a connection's own smoothed round-trip time says more than its handshake did. */
#define LONG_CONNECTION_SEGMENTS 16

/* Where the connection comes from, as far as it was not known at connect(). */
static __always_inline void complete(struct socket_service *socket, struct bpf_sock_ops *ctx, struct sock *sk)
{
	socket->family = ctx->family;
	socket->local_port = bpf_htons(ctx->local_port);
	if (ctx->family == AF_INET6) {
		socket->local.word[0] = ctx->local_ip6[0];
		socket->local.word[1] = ctx->local_ip6[1];
		socket->local.word[2] = ctx->local_ip6[2];
		socket->local.word[3] = ctx->local_ip6[3];
	} else {
		socket->local = v4_mapped(ctx->local_ip4);
	}
	barrier();
	socket->netns = sk->__sk_common.skc_net.net->ns.inum;
}

static __always_inline void drop(struct socket_service *socket)
{
	load_remove(socket);
	remove_connection(socket);
}

/* A connection to no service, that may be Envoy's to a backend. */
static __noinline int begin_other(struct bpf_sock_ops *ctx)
{
	struct socket_service socket = {};
	struct bpf_sock *sk = ctx->sk;
	struct sock_common *common;
	struct tcp_sock *tcp;
	__u32 mark;

	if (!sk)
		return 0;
	mark = sk->mark;
	if (mark != MARK_BY_PROXY && mark != MARK_TO_PROXY && mark != MARK_TUNNEL)
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return 0;
	common = &((struct sock *)tcp)->__sk_common;
	if (common->skc_net.net->ns.inum != config.node_netns)
		return 0;
	socket.local = local_address(common);
	socket.local_port = bpf_htons(common->skc_num);
	socket.addr = remote_address(common);
	socket.port = common->skc_dport;
	return begin_upstream(&socket, tcp->write_seq, mark);
}

static __always_inline void begin(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct socket_service *socket = connection_of(cookie);
	__u32 callbacks = ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG;
	struct tcp_sock *tcp;

	if (!socket) {
		begin_other(ctx);
		return;
	}
	/* The entry of an earlier connect() of this socket, which sent no SYN, to a service. */
	if (socket->port != bpf_htons(bpf_ntohl(ctx->remote_port))) {
		drop(socket);
		return;
	}
	if (!ctx->sk)
		return;
	tcp = bpf_skc_to_tcp_sock(ctx->sk);
	if (!tcp)
		return;
	complete(socket, ctx, (struct sock *)tcp);
	load_add(socket);
	if (is_tracked(socket))
		announce(socket);
	if (socket->flags & SERVICE_TIMED)
		bound_handshake(ctx, socket, tcp);
	if (socket->flags & WATCHED)
		callbacks |= WATCHED_CB_FLAG;
	bpf_sock_ops_cb_flags_set(ctx, callbacks);
}

static __always_inline struct socket_service *watched_socket(struct bpf_sock_ops *ctx)
{
	__u64 cookie;

	if (!(ctx->bpf_sock_ops_cb_flags & WATCHED_CB_FLAG))
		return NULL;
	cookie = bpf_get_socket_cookie(ctx);
	return connection_of(cookie);
}

/* Asked right after the first SYN was announced, and for connections of all other kinds too. */
static __always_inline void set_first_retry(struct bpf_sock_ops *ctx)
{
	struct socket_service *socket = watched_socket(ctx);
	__u32 ticks = socket ? first_retry(socket) : 0;

	if (ticks)
		ctx->reply = ticks;
}

static __always_inline void established(struct bpf_sock_ops *ctx)
{
	struct socket_service *socket = watched_socket(ctx);
	struct tcp_sock *tcp;

	if (!socket || !ctx->sk)
		return;
	tcp = bpf_skc_to_tcp_sock(ctx->sk);
	if (tcp && (socket->flags & SERVICE_TIMED))
		unbound_handshake(ctx, socket, tcp);
	if (socket->flags & SERVICE_OUTLIER)
		backend_answered(socket->backend);
	if (socket->flags & SERVICE_RTT)
		learn_rtt(socket->backend, ctx->srtt_us >> 3);
}

/* One side has nothing more to say. */
static __always_inline void leave_established(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	__u32 srtt_us = ctx->srtt_us >> 3;
	struct socket_service *socket;

	if (ctx->segs_in < LONG_CONNECTION_SEGMENTS && !ctx->total_retrans)
		return;
	socket = connection_of(cookie);
	if (!socket)
		return;
	if (socket->flags & SERVICE_RTT)
		learn_rtt(socket->backend, srtt_us);
	if (is_tracked(socket))
		note_quality(socket, srtt_us, ctx->total_retrans);
}

static __always_inline void end(struct bpf_sock_ops *ctx, __u32 left)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct socket_service *socket = connection_of(cookie);
	struct tcp_sock *tcp;

	if (!socket)
		return;
	tcp = ctx->sk ? bpf_skc_to_tcp_sock(ctx->sk) : NULL;
	if (tcp && left == BPF_TCP_SYN_SENT)
		unbound_handshake(ctx, socket, tcp);
	if (tcp && (left == BPF_TCP_SYN_SENT || (socket->flags & SERVICE_OUTLIER)))
		conclude(ctx, socket, (struct sock *)tcp, left);
	drop(socket);
}

static __always_inline void change_state(struct bpf_sock_ops *ctx, __u32 from, __u32 to)
{
	if (to == BPF_TCP_CLOSE)
		end(ctx, from);
	else if (to == BPF_TCP_ESTABLISHED)
		established(ctx);
	else if (from == BPF_TCP_ESTABLISHED)
		leave_established(ctx);
}

SEC("sockops")
int weft_sockops(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_TIMEOUT_INIT:
		set_first_retry(ctx);
		break;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		begin(ctx);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		change_state(ctx, ctx->args[0], ctx->args[1]);
		break;
	}
	return 1;
}

SEC("cgroup/sock_release")
int weft_sock_release(struct bpf_sock *ctx)
{
	struct socket_service *socket;
	__u64 cookie;

	if (ctx->protocol == IPPROTO_TCP) {
		/* A connection outlives its socket's release, and sockops sees its end; but one that sent no SYN, and so has no peer,
		   ends here. */
		if (ctx->state != BPF_TCP_CLOSE || ctx->dst_port)
			return 1;
		cookie = bpf_get_socket_cookie(ctx);
		socket = connection_of(cookie);
		if (socket)
			drop(socket);
		return 1;
	}
	socket = bpf_sk_storage_get(&sockets, ctx, NULL, 0);
	if (socket)
		load_remove(socket);
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
