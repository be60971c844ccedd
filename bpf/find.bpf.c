/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Finds the sockets connected to a backend that is going away, in whichever network namespace: one pass over those that remember a
 * service, no other. Reports them as struct closing_socket.
 */
#include "include/weft.h"
#include "include/export.h"
#include "include/kernel.h"
#include "lib/socket.h"

static __always_inline bool is_closing(const struct socket_service *socket)
{
	__u32 backend = socket->backend;

	return bpf_map_lookup_elem(&closing, &backend) != NULL;
}

/* Over `connection_places` and `connections`. */
SEC("iter/bpf_map_elem")
int weft_find_tcp(struct bpf_iter__bpf_map_elem *ctx)
{
	struct socket_service *socket = ctx->value;
	struct closing_socket found = { .protocol = IPPROTO_TCP };

	/* Without a namespace its SYN has not left yet: a later pass finds it. */
	if (!socket || !socket->netns || !is_closing(socket))
		return 0;
	found.backend = socket->backend;
	found.family = socket->family;
	found.netns = socket->netns;
	found.local = socket->local;
	found.local_port = socket->local_port;
	found.remote = socket->addr;
	found.remote_port = socket->port;
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

SEC("iter/bpf_sk_storage_map")
int weft_find_udp(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct socket_service *socket = ctx->value;
	struct closing_socket found = { .protocol = IPPROTO_UDP };
	struct sock *sk = ctx->sk;

	if (!sk || !socket || !is_closing(socket))
		return 0;
	found.backend = socket->backend;
	found.family = sk->__sk_common.skc_family;
	found.netns = sk->__sk_common.skc_net.net->ns.inum;
	found.local_port = bpf_htons(sk->__sk_common.skc_num);
	found.remote_port = sk->__sk_common.skc_dport;
	found.local = local_address(&sk->__sk_common);
	found.remote = remote_address(&sk->__sk_common);
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
