/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Connections to and by the node's Envoy, where they are opened. Envoy connects to backends from the address of the pod whose request it
 * carries: that pod's egress policy is asked here, as those connections leave no pod's interface. Ingress is judged at the backend's.
 */
#ifndef WEFT_LIB_PROXY_CONNECT_H
#define WEFT_LIB_PROXY_CONNECT_H

#include "../include/weft.h"
#include "address.h"
#include "identity.h"
#include "mtls.h"
#include "policy.h"
#include "proxy.h"
#include "refuse.h"

#define AF_INET 2
#define SOL_SOCKET 1
#define SO_MARK 36

/* Envoy's: a socket of the node's network namespace with a mark that only the privileged can set there. */
static __always_inline bool is_by_proxy(struct bpf_sock_addr *ctx)
{
	if (!ctx->sk || ctx->sk->mark < MARK_BY_PROXY || ctx->sk->mark > MARK_EMERGED)
		return false;
	return bpf_get_netns_cookie(ctx) == config.node_cookie;
}

/* Left as it is: the SYN is handed over at the pod's interface. */
static __always_inline int connect_downstream(const struct endpoint *user, __u32 service)
{
	if (is_proxy_ready())
		return SOCKET_ALLOW;
	tell_refused(user, service, IPPROTO_TCP, REASON_PROXY_DOWN);
	return refuse(COUNTER_REFUSED);
}

static __always_inline struct weft_addr bound_address(struct bpf_sock_addr *ctx)
{
	struct weft_addr addr = {};

	if (ctx->family == AF_INET) {
		__be32 ip = ctx->sk->src_ip4;

		/* Else the compiler makes one load of both families', from a place that it computes: verifiers take none. */
		barrier_var(ip);
		return v4_mapped(ip);
	}
	addr.word[0] = ctx->sk->src_ip6[0];
	addr.word[1] = ctx->sk->src_ip6[1];
	addr.word[2] = ctx->sk->src_ip6[2];
	addr.word[3] = ctx->sk->src_ip6[3];
	return addr;
}

/*
 * What the policy of one end, a pod of this node, says about a connection of Envoy's: the egress policy of the pod at `client`, or the
 * ingress policy of the one at `server` about what Envoy lets go on to it (a request that its layer 7 policy has let through, or a
 * connection out of a tunnel: VERDICT_PROXY is no refusal then). Returns the reason of a refusal.
 */
VERIFIED_ONCE int judge_between(const struct weft_addr *client, const struct endpoint *server, struct rule *rule, __u32 egress)
{
	struct question question = { .egress = egress };
	struct party source, destination;
	struct weft_addr addr;

	if (!client || !server || !rule)
		return REASON_MALFORMED;
	addr = *client;
	identify(&addr, &source);
	addr = server->addr;
	identify(&addr, &destination);
	question.interface = egress ? source.interface : destination.interface;
	question.peer = egress ? destination.identity : source.identity;
	question.peer_flags = egress ? destination.flags : source.flags;
	/* Whoever it is, no pod of this node. */
	if (!question.interface)
		return egress ? REASON_SPOOFED : REASON_MISDELIVERED;
	question.point = policy_point(IPPROTO_TCP, server->port);
	judge(&question, rule);
	if (rule->verdict == VERDICT_ALLOW || (!egress && rule->verdict == VERDICT_PROXY))
		return REASON_NONE;
	return rule->reason ? rule->reason : REASON_POLICY;
}

/* Whether a connection that is to carry tunnels goes from a local pod to one that takes them: then it needs no judgement of its own. */
VERIFIED_ONCE int judge_carrier(const struct weft_addr *client, const struct endpoint *server)
{
	struct party source;
	struct weft_addr addr;

	if (!client || !server)
		return REASON_MALFORMED;
	addr = *client;
	identify(&addr, &source);
	if (!source.interface)
		return REASON_SPOOFED;
	addr = server->addr;
	return server->port == bpf_htons(TUNNEL_PORT) && mtls_at(&addr, 0) ? REASON_NONE : REASON_MISDELIVERED;
}

static __noinline int tell_upstream_refused(const struct weft_addr *client, const struct endpoint *server, const struct rule *rule,
                                            __u32 why)
{
	struct event event = { .protocol = IPPROTO_TCP, .type = EVENT_DENIED, .proxy = PROXY_UPSTREAM_0 };

	event.source = *client;
	event.destination = server->addr;
	event.destination_port = server->port;
	event.rule = rule->id;
	event.direction = DIRECTION_EGRESS;
	event.verdict = VERDICT_DENY;
	event.reason = why;
	emit(&event);
	return 0;
}

/* Has the connection come in again by the loopback interface, where another listener of Envoy takes it: see weft_from_self. */
static __always_inline int into_loop(struct bpf_sock_addr *ctx)
{
	__u32 mark = MARK_TO_PROXY;

	return bpf_setsockopt(ctx, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) ? REASON_PROXY_DOWN : REASON_NONE;
}

static __always_inline __u32 judge_own(struct bpf_sock_addr *ctx, const struct weft_addr *client, const struct endpoint *server,
                                       struct rule *rule)
{
	__u32 mark = ctx->sk->mark, why;

	if (mark == MARK_ADMITTED || mark == MARK_EMERGED) {
		why = judge_between(client, server, rule, false);
		/* To Envoy's other listener, which asks the layer 7 policy. */
		return !why && mark == MARK_EMERGED && rule->verdict == VERDICT_PROXY ? into_loop(ctx) : why;
	}
	if (mark == MARK_TUNNEL)
		return judge_carrier(client, server);
	why = judge_between(client, server, rule, true);
	if (why || !(mtls_flags() & MTLS_OPENS) || !needs_tunnel(&server->addr, server->port, true))
		return why;
	return into_loop(ctx);
}

static __always_inline int connect_upstream(struct bpf_sock_addr *ctx, const struct endpoint *server)
{
	struct weft_addr client = bound_address(ctx);
	struct rule rule = {};
	__u32 why;

	/* In nobody's name, as a copy of a request: the node's own address. Judged at the backend's interface, see PROXY_OWN. */
	if (!client.word[0] && !client.word[1] && !client.word[3])
		return SOCKET_ALLOW;
	why = judge_own(ctx, &client, server, &rule);
	if (!why)
		return SOCKET_ALLOW;
	tell_upstream_refused(&client, server, &rule, why);
	return refuse(COUNTER_REFUSED);
}

#endif
