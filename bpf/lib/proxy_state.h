/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Whether there is an Envoy, and whose connections it takes. */
#ifndef WEFT_LIB_PROXY_STATE_H
#define WEFT_LIB_PROXY_STATE_H

#include "packet.h"
#include "policy.h"

static __always_inline bool is_proxy_ready(void)
{
	__u32 zero = 0;
	struct proxy_state *state = bpf_map_lookup_elem(&proxy_state, &zero);

	return state && state->ready == 1;
}

/* What is looked for among that which comes to local pods: enum steering. */
static __always_inline __u32 proxy_steering(void)
{
	__u32 zero = 0;
	struct proxy_state *state = bpf_map_lookup_elem(&proxy_state, &zero);

	return state ? state->steering : 0;
}

/* Whether Envoy may be asked about connections to the pod behind this interface. */
static __always_inline bool is_flagged(__u32 interface)
{
	struct local_workload *workload = bpf_map_lookup_elem(&local_workloads, &interface);

	return workload && workload->flags & WORKLOAD_LAYER7;
}

/* Whether the policy of the pod at `server` leaves a connection of `client`, whose first packet this is, to Envoy. */
VERIFIED_ONCE int asks_proxy(const struct party *client, const struct party *server, const struct packet *packet)
{
	struct question question = {};
	struct rule rule = {};
	__u32 interface;

	if (!client || !server || !packet || !(proxy_steering() & STEER_INBOUND))
		return false;
	interface = server->interface;
	if (!is_flagged(interface))
		return false;
	question.interface = interface;
	question.peer = client->identity;
	question.peer_flags = client->flags;
	question.point = policy_point(IPPROTO_TCP, packet->destination_port);
	judge(&question, &rule);
	return rule.verdict == VERDICT_PROXY;
}

#endif
