/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Both directions of the host side of a pod's interface: from the pod into the node (tc ingress), and to it (tc egress). */
#include "lib/verdict.h"

SEC("tc")
int weft_from_pod(struct __sk_buff *skb)
{
	return pod_packet(skb, true);
}

SEC("tc")
int weft_to_pod(struct __sk_buff *skb)
{
	return pod_packet(skb, false);
}

char LICENSE[] SEC("license") = "GPL";
