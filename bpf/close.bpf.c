/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Closes the sockets of one network namespace that are connected to a backend that is going away: TCP gets ECONNABORTED and its
 * peer a RST, connected UDP gets ECONNABORTED. Needs bpf_sock_destroy (Linux 6.5); without it the agent asks over netlink.
 */
#include "include/weft.h"
#include "include/kernel.h"
#include "lib/connection.h"
#include "lib/counter.h"

extern int bpf_sock_destroy(struct sock_common *sk) __ksym __weak;

static __always_inline void close_if_leaving(struct sock_common *sk, const struct socket_service *socket)
{
	__u32 backend;

	if (!socket)
		return;
	backend = socket->backend;
	if (!bpf_map_lookup_elem(&closing, &backend))
		return;
	/* The guard lets the verifier drop the call on older kernels, where the agent does not run this. */
	if (bpf_ksym_exists(bpf_sock_destroy) && !bpf_sock_destroy(sk))
		count(COUNTER_SOCKETS_CLOSED);
}

SEC("iter/tcp")
int weft_close_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	__u64 cookie;

	if (!sk)
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	close_if_leaving(sk, connection_of(cookie));
	return 0;
}

SEC("iter/udp")
int weft_close_udp(struct bpf_iter__udp *ctx)
{
	struct sock_common *sk = (struct sock_common *)ctx->udp_sk;

	if (sk)
		close_if_leaving(sk, bpf_sk_storage_get(&sockets, sk, NULL, 0));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
