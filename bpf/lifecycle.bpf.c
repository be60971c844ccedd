/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* From the first SYN to the last state of a TCP connection, and the end of a socket: what counts as open. */
#include "include/weft.h"
#include "include/kernel.h"
#include "lib/address.h"
#include "lib/load.h"

#define AF_INET6 10

/* Where the connection comes from, as far as it was not known at connect(). */
static __always_inline void complete(struct socket_service *socket, struct bpf_sock_ops *ctx, struct sock *sk)
{
	socket->netns = sk->__sk_common.skc_net.net->ns.inum;
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
}

static __always_inline void begin(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct socket_service *socket = bpf_map_lookup_elem(&connections, &cookie);
	struct tcp_sock *tcp;

	/* The port tells an entry of an earlier connect() of this socket, which sent no SYN, to a service. */
	if (!socket || socket->port != bpf_htons(bpf_ntohl(ctx->remote_port)) || !ctx->sk)
		return;
	tcp = bpf_skc_to_tcp_sock(ctx->sk);
	if (!tcp)
		return;
	complete(socket, ctx, (struct sock *)tcp);
	load_add(socket);
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
}

static __always_inline void end(__u64 cookie)
{
	struct socket_service *socket = bpf_map_lookup_elem(&connections, &cookie);

	if (!socket)
		return;
	load_remove(socket);
	bpf_map_delete_elem(&connections, &cookie);
}

SEC("sockops")
int weft_sockops(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		begin(ctx);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ctx->args[1] == BPF_TCP_CLOSE)
			end(bpf_get_socket_cookie(ctx));
		break;
	}
	return 1;
}

SEC("cgroup/sock_release")
int weft_sock_release(struct bpf_sock *ctx)
{
	struct socket_service *socket;

	if (ctx->protocol == IPPROTO_TCP) {
		/* A connection outlives its socket's release, and sockops sees its end; but one that sent no SYN ends here. */
		if (ctx->state == BPF_TCP_CLOSE)
			end(bpf_get_socket_cookie(ctx));
		return 1;
	}
	socket = bpf_sk_storage_get(&sockets, ctx, NULL, 0);
	if (socket)
		load_remove(socket);
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
