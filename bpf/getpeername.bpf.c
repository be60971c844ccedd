/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The peer that getpeername() reports. */
#include "lib/connect.h"

SEC("cgroup/getpeername4")
int weft_getpeername4(struct bpf_sock_addr *ctx)
{
	struct endpoint user = user_endpoint4(ctx);

	if (connected_vip(ctx, &user))
		set_user_endpoint4(ctx, &user);
	return SOCKET_ALLOW;
}

SEC("cgroup/getpeername6")
int weft_getpeername6(struct bpf_sock_addr *ctx)
{
	struct endpoint user = user_endpoint6(ctx);

	if (connected_vip(ctx, &user))
		set_user_endpoint6(ctx, &user);
	return SOCKET_ALLOW;
}

char LICENSE[] SEC("license") = "GPL";
