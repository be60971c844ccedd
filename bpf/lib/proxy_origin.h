/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Tells the programs at the pods' interfaces of a connection that Envoy opens in the name of a pod, before its SYN leaves: its replies are
 * to go to Envoy, not to the pod.
 */
#ifndef WEFT_LIB_PROXY_ORIGIN_H
#define WEFT_LIB_PROXY_ORIGIN_H

#include "origin.h"
#include "proxy_connect.h"

/* Says to the tables that Envoy opens what `socket` is; `rule` has let it through, judged in this epoch. */
static __noinline int announce_upstream(const struct socket_service *socket, const struct rule *rule, __u32 epoch, __u32 isn,
                                        __u32 proxy)
{
	struct weft_addr addr = socket->local;
	struct party source, destination;
	struct flow_key key = {};
	struct flow flow = {};
	__u32 end;

	end = either(flow_key_of_socket(socket, &key));
	identify(&addr, &source);
	addr = socket->addr;
	identify(&addr, &destination);
	flow.proxy = proxy | end;
	if (end)
		flow.flags = FLOW_FROM_END_1;
	flow.isn = isn;
	flow.epoch[0] = epoch;
	flow.rule[0] = rule->id;
	flow.reason = rule->reason;
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

/* A socket with one of Envoy's marks sends its SYN. Judged anew, so that the epoch is the judgement's; refused, its replies find nobody. */
static __noinline int begin_upstream(const struct socket_service *socket, __u32 isn, __u32 mark)
{
	struct endpoint server = { .addr = socket->addr, .port = socket->port };
	struct weft_addr client = socket->local;
	__u32 epoch = policy_epoch();
	struct rule rule = {};

	if (mark == MARK_TUNNEL) {
		answer(&rule, VERDICT_ALLOW, REASON_PROXY);
		return announce_upstream(socket, &rule, epoch, isn, PROXY_CARRIER_0);
	}
	if (judge_between(&client, &server, &rule, true))
		return 0;
	return announce_upstream(socket, &rule, epoch, isn, PROXY_UPSTREAM_0);
}

#endif
