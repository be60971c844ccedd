/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* From the first SYN to the last state of a TCP connection, and the end of a UDP socket: what counts as open. */
#include "lib/load.h"

SEC("sockops")
int weft_sockops(struct bpf_sock_ops *ctx)
{
	struct socket_service *socket;
	struct bpf_sock *sk;

	if (ctx->op != BPF_SOCK_OPS_TCP_CONNECT_CB && ctx->op != BPF_SOCK_OPS_STATE_CB)
		return 1;
	sk = ctx->sk;
	if (!sk)
		return 1;
	socket = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!socket)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_TCP_CONNECT_CB) {
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
		load_add(socket);
	} else if (ctx->args[1] == BPF_TCP_CLOSE) {
		load_remove(socket);
	}
	return 1;
}

SEC("cgroup/sock_release")
int weft_sock_release(struct bpf_sock *ctx)
{
	struct socket_service *socket;

	/* A TCP connection may outlive its socket's release; sockops sees its end. */
	if (ctx->protocol != IPPROTO_UDP)
		return 1;
	socket = bpf_sk_storage_get(&sockets, ctx, NULL, 0);
	if (socket)
		load_remove(socket);
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
