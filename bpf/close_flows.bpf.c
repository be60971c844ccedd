/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Closes the sockets of one network namespace whose connection a policy forbids now, or is too old: TCP gets ECONNABORTED and its peer
 * a RST, connected UDP gets ECONNABORTED. Never a socket without a peer. Needs bpf_sock_destroy, as close.bpf.c.
 */
#include "include/weft.h"
#include "include/kernel.h"
#include "lib/counter.h"
#include "lib/flow.h"
#include "lib/socket.h"

/* States of a socket, for UDP too: connected is ESTABLISHED, anything else CLOSE (include/net/tcp_states.h). */
#define TCP_TIME_WAIT 6
#define TCP_CLOSE 7
#define TCP_LISTEN 10

extern int bpf_sock_destroy(struct sock_common *sk) __ksym __weak;

static __always_inline void close_if_ended(struct sock_common *sk, __u8 protocol)
{
	struct packet sent = { .protocol = protocol };
	struct flow_key key = {};
	__u8 state = sk->skc_state;

	if (state == TCP_LISTEN || state == TCP_CLOSE || state == TCP_TIME_WAIT)
		return;
	sent.source = local_address(sk);
	sent.source_port = bpf_htons(sk->skc_num);
	sent.destination = remote_address(sk);
	sent.destination_port = sk->skc_dport;
	flow_key_of(&sent, &key);
	if (!sent.destination_port || !bpf_map_lookup_elem(&closing_flows, &key))
		return;
	/* The guard lets the verifier drop the call on older kernels, where the agent does not run this. */
	if (bpf_ksym_exists(bpf_sock_destroy) && !bpf_sock_destroy(sk))
		count(COUNTER_SOCKETS_CLOSED);
}

SEC("iter/tcp")
int weft_close_flows_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;

	if (sk)
		close_if_ended(sk, IPPROTO_TCP);
	return 0;
}

SEC("iter/udp")
int weft_close_flows_udp(struct bpf_iter__udp *ctx)
{
	struct sock_common *sk = (struct sock_common *)ctx->udp_sk;

	if (sk)
		close_if_ended(sk, IPPROTO_UDP);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
