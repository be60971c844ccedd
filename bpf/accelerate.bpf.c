/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Same-node acceleration: makes pairs of sockets, and lets them exchange messages. Loaded only where it is wanted: see abi/accel.h. */
#include "lib/accel.h"

SEC("sockops")
int weft_accel_sockops(struct bpf_sock_ops *ctx)
{
	struct tcp_sock *tcp;

	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ctx->args[1] == BPF_TCP_CLOSE)
			break;
		return 1;
	default:
		return 1;
	}
	tcp = ctx->sk ? bpf_skc_to_tcp_sock(ctx->sk) : NULL;
	if (!tcp)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_STATE_CB)
		closed(ctx, tcp);
	else if (ctx->op == BPF_SOCK_OPS_TCP_LISTEN_CB)
		remember_listener(netns_of(tcp), ctx->local_port, ctx->family, tcp);
	else if (!is_enabled())
		return 1;
	else if (ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB)
		client_established(ctx, tcp);
	else
		server_established(ctx, tcp);
	return 1;
}

SEC("sk_msg")
int weft_accel_message(struct sk_msg_md *msg)
{
	return accelerate(msg);
}

/* Finds those who listened before weft_accel_sockops was there. Run by the agent in each pod's network namespace. */
SEC("iter/tcp")
int weft_accel_listeners(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;

	if (sk && sk->skc_state == BPF_TCP_LISTEN)
		remember_listener(sk->skc_net.net->ns.inum, sk->skc_num, sk->skc_family, sk);
	return 0;
}

/* Takes sockets of one network namespace out. Run by the agent while `accel_leaving` has any. */
SEC("iter/tcp")
int weft_accel_leave(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;

	if (sk && sk->skc_state != BPF_TCP_LISTEN)
		leave_if_drained(sk);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
