/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Tells the programs at the pods' interfaces of a connection that Envoy opens in the name of a pod, before its SYN leaves: its replies are
 * to go to Envoy, not to the pod.
 */
#ifndef WEFT_LIB_PROXY_ORIGIN_H
#define WEFT_LIB_PROXY_ORIGIN_H

#include "origin.h"
#include "proxy_connect.h"

static __noinline int announce_upstream(const struct socket_service *socket, __u32 isn, bool is_carrier)
{
	struct endpoint server = { .addr = socket->addr, .port = socket->port };
	struct weft_addr client = socket->local;
	struct party source, destination;
	struct flow_key key = {};
	struct flow flow = {};
	struct rule rule = {};
	__u32 end, epoch = policy_epoch();

	/* Judged anew, so that the epoch is the judgement's. Refused: its replies will find nobody. */
	if (is_carrier)
		answer(&rule, VERDICT_ALLOW, REASON_PROXY);
	else if (judge_upstream(&client, &server, &rule))
		return 0;
	end = either(flow_key_of_socket(socket, &key));
	identify(&client, &source);
	identify(&server.addr, &destination);
	flow.proxy = (is_carrier ? PROXY_CARRIER_0 : PROXY_UPSTREAM_0) | end;
	if (end)
		flow.flags = FLOW_FROM_END_1;
	flow.isn = isn;
	flow.epoch[0] = epoch;
	flow.rule[0] = rule.id;
	flow.reason = rule.reason;
	/* By constant indexes: the compiler would compute an address on the stack otherwise, which verifiers do not take. */
	if (end) {
		flow.interface[1] = source.interface;
		flow.identity[1] = source.identity;
		flow.identity[0] = destination.identity;
	} else {
		flow.interface[0] = source.interface;
		flow.identity[0] = source.identity;
		flow.identity[1] = destination.identity;
	}
	flow.first_ns = bpf_ktime_get_coarse_ns();
	flow.last_ns = flow.first_ns;
	bpf_map_update_elem(&ct_pending, &key, &flow, BPF_ANY);
	return 0;
}

#endif
