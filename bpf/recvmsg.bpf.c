/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The sender that recvfrom() and its like report for UDP. */
#include "lib/udp.h"

SEC("cgroup/recvmsg4")
int weft_recvmsg4(struct bpf_sock_addr *ctx)
{
	struct endpoint user = user_endpoint4(ctx);

	if (connected_vip(ctx, &user) || sender_vip(ctx, &user))
		set_user_endpoint4(ctx, &user);
	return SOCKET_ALLOW;
}

SEC("cgroup/recvmsg6")
int weft_recvmsg6(struct bpf_sock_addr *ctx)
{
	struct endpoint user = user_endpoint6(ctx);

	if (connected_vip(ctx, &user) || sender_vip(ctx, &user))
		set_user_endpoint6(ctx, &user);
	return SOCKET_ALLOW;
}

char LICENSE[] SEC("license") = "GPL";
