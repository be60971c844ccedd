/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Finds the sockets connected to a backend that is going away, in whichever network namespace: one pass over the sockets that
 * remember a service, no other. Reports them as struct closing_socket.
 */
#include "include/weft.h"
#include "include/export.h"
#include "include/kernel.h"
#include "lib/address.h"

#define AF_INET6 10

static __always_inline struct weft_addr copy_v6(const struct in6_addr *from)
{
	struct weft_addr addr;

	bpf_probe_read_kernel(&addr, sizeof(addr), from);
	return addr;
}

SEC("iter/bpf_sk_storage_map")
int weft_find_closing(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct socket_service *socket = ctx->value;
	struct sock *sk = ctx->sk;
	struct closing_socket found = {};
	__u32 backend;

	if (!sk || !socket)
		return 0;
	backend = socket->backend;
	if (!bpf_map_lookup_elem(&closing, &backend))
		return 0;
	found.backend = backend;
	found.family = sk->__sk_common.skc_family;
	found.protocol = sk->sk_protocol;
	found.netns = sk->__sk_common.skc_net.net->ns.inum;
	found.local_port = bpf_htons(sk->__sk_common.skc_num);
	found.remote_port = sk->__sk_common.skc_dport;
	if (found.family == AF_INET6) {
		found.local = copy_v6(&sk->__sk_common.skc_v6_rcv_saddr);
		found.remote = copy_v6(&sk->__sk_common.skc_v6_daddr);
	} else {
		found.local = v4_mapped(sk->__sk_common.skc_rcv_saddr);
		found.remote = v4_mapped(sk->__sk_common.skc_daddr);
	}
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
