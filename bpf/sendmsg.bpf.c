/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* sendto(), sendmsg() and sendmmsg() of UDP with a destination. */
#include "lib/udp.h"

SEC("cgroup/sendmsg4")
int weft_sendmsg4(struct bpf_sock_addr *ctx)
{
	struct endpoint user = user_endpoint4(ctx);
	int verdict = send_service(ctx, &user);

	if (verdict == SOCKET_ALLOW)
		set_user_endpoint4(ctx, &user);
	return verdict;
}

SEC("cgroup/sendmsg6")
int weft_sendmsg6(struct bpf_sock_addr *ctx)
{
	struct endpoint user = user_endpoint6(ctx);
	int verdict = send_service(ctx, &user);

	if (verdict == SOCKET_ALLOW)
		set_user_endpoint6(ctx, &user);
	return verdict;
}

char LICENSE[] SEC("license") = "GPL";
