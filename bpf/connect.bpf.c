/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* connect(): TCP, and UDP that is connected. */
#include "lib/connect.h"

SEC("cgroup/connect4")
int weft_connect4(struct bpf_sock_addr *ctx)
{
	struct endpoint user = user_endpoint4(ctx);
	int verdict = connect_service(ctx, &user);

	if (verdict == SOCKET_ALLOW)
		set_user_endpoint4(ctx, &user);
	return verdict;
}

SEC("cgroup/connect6")
int weft_connect6(struct bpf_sock_addr *ctx)
{
	struct endpoint user = user_endpoint6(ctx);
	int verdict = connect_service(ctx, &user);

	if (verdict == SOCKET_ALLOW)
		set_user_endpoint6(ctx, &user);
	return verdict;
}

char LICENSE[] SEC("license") = "GPL";
