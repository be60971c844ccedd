/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The yardstick for what a packet costs: nothing at all, and one look-up in the table of flows. */
#include "include/weft.h"

SEC("tc")
int weft_test_nothing(struct __sk_buff *skb)
{
	return 0;
}

/* Of the flow between 10.1.0.1:40000 and 10.1.0.2:80. */
SEC("tc")
int weft_test_lookup(struct __sk_buff *skb)
{
	struct flow_key key = {
		.addr = { { { 0, 0, bpf_htonl(0xffff), bpf_htonl(0x0a010001) } },
		          { { 0, 0, bpf_htonl(0xffff), bpf_htonl(0x0a010002) } } },
		.port = { bpf_htons(40000), bpf_htons(80) },
		.protocol = IPPROTO_TCP,
	};

	return bpf_map_lookup_elem(&ct, &key) != NULL;
}

char LICENSE[] SEC("license") = "GPL";
