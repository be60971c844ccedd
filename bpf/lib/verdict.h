/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What happens to a packet at a pod's interface. */
#ifndef WEFT_LIB_VERDICT_H
#define WEFT_LIB_VERDICT_H

#include <linux/pkt_cls.h>

#include "datagram.h"
#include "identity.h"
#include "proxy.h"
#include "related.h"
#include "inbound.h"
#include "route.h"
#include "tcp.h"

/* To the next program on the hook, if there is one, else on its way: others may have a say as well. */
#define POD_PASS TC_ACT_UNSPEC
#define POD_DROP TC_ACT_SHOT

#define MULTICAST4 0xe0000000 /* 224.0.0.0/4 */
#define BROADCAST4 0xffffffff

static __always_inline bool is_group(const struct packet *packet)
{
	__u32 last = bpf_ntohl(packet->destination.word[3]);

	if (packet->version == 6)
		return bpf_ntohl(packet->destination.word[0]) >> 24 == 0xff;
	return (last & 0xf0000000) == MULTICAST4 || last == BROADCAST4;
}

/* What is known of a packet's flow. */
enum acquaintance {
	FLOW_UNKNOWN,
	FLOW_JUDGED, /* TCP, what tcp_judged() takes: judged by policy as it is now, from the interface where its pod is */
	FLOW_PASSES, /* the same of any protocol, and it is established: one look-up, and nothing else to be asked */
};

static __always_inline void recall_ends(struct passage *passage, const struct flow *flow)
{
	__u32 pod = pod_end(passage), peer = other(pod);

	passage->pod.identity = flow->identity[pod];
	passage->pod.interface = flow->interface[pod];
	passage->peer.identity = flow->identity[peer];
	passage->peer.interface = flow->interface[peer];
}

/* What `ct` has of this packet's flow, and of a SYN-ACK's `ct_pending`. */
static __always_inline struct flow *recall(const struct passage *passage)
{
	__u32 step = passage->packet.tcp_flags & TCP_STEP;

	if (passage->packet.kind != PACKET_FLOW || passage->packet.fragment)
		return NULL;
	/* Without a copy of the key, as find_flow() makes one: it is the program's own. */
	if (passage->packet.protocol == IPPROTO_TCP && step & TCP_SYN) {
		struct flow *pending = step & TCP_ACK ? bpf_map_lookup_elem(&ct_pending, &passage->key) : NULL;

		/* Else the compiler makes one look-up of both, in a map that it computes: an indirect call for each packet. */
		barrier_var(pending);
		return pending;
	}
	return bpf_map_lookup_elem(&ct, &passage->key);
}

/* What is known of a flow that recall() has found, or not. */
static __always_inline enum acquaintance meet(struct passage *passage, struct flow *flow)
{
	const struct packet *packet = &passage->packet;
	__u32 step = packet->tcp_flags & TCP_STEP;

	if (!flow)
		return FLOW_UNKNOWN;
	follow_flow(passage, flow);
	passage->epoch = policy_epoch();
	if (!passage->epoch || !is_judged(flow, passage))
		return FLOW_UNKNOWN;
	if (packet->protocol != IPPROTO_TCP) {
		if (flow->state != FLOW_ESTABLISHED || crosses(passage, flow))
			return FLOW_UNKNOWN;
	} else if (step & TCP_SYN && !is_answer_to(flow, passage)) {
		return FLOW_UNKNOWN;
	} else if (flow->state != FLOW_ESTABLISHED || step != TCP_ACK) {
		recall_ends(passage, flow);
		return FLOW_JUDGED;
	} else {
		advance(flow, passage);
	}
	count_packet(flow, passage);
	return FLOW_PASSES;
}

/* A later fragment belongs to the flow of the first, which has been let through: it opens none. */
VERIFIED_ONCE int judge_later_fragment(struct passage *passage)
{
	struct flow *flow;
	enum reason reason;

	if (!passage)
		return REASON_MALFORMED;
	flow = find_flow(&ct, passage);
	if (flow) {
		if (flow->state == FLOW_REVOKED)
			return REASON_REVOKED;
		reason = judge_tracked(passage);
	} else {
		flow = find_flow(&ct_pending, passage);
		if (!flow)
			return REASON_FRAGMENT;
		reason = judge_pending(passage);
	}
	if (!reason)
		count_packet(flow, passage);
	return reason;
}

static __always_inline enum reason judge_error(struct __sk_buff *skb, struct passage *passage)
{
	enum reason reason = related(skb, passage);

	return reason == REASON_UNRELATED && passage->peer.flags & IDENTITY_HOST ? REASON_NONE : reason;
}

/* Whether the pod has a policy. Those who ask it are told. */
static __always_inline bool is_ready(__u32 interface)
{
	return bpf_map_lookup_elem(&local_workloads, &interface);
}

/* Whatever meet() does not settle. */
static __always_inline enum reason judge_packet(struct __sk_buff *skb, struct passage *passage)
{
	const struct packet *packet = &passage->packet;
	__u32 interface = passage->interface;

	/* That of the flow which meet() has looked at does not count: the entry may have become another's. */
	passage->proxy = PROXY_NONE;
	passage->routed = passage->arrived;
	passage->now = bpf_ktime_get_ns();
	passage->epoch = policy_epoch();
	if (!passage->epoch)
		return REASON_NOT_READY;
	identify(&packet->source, passage->from_pod ? &passage->pod : &passage->peer);
	identify(&packet->destination, passage->from_pod ? &passage->peer : &passage->pod);
	if (passage->pod.interface != interface) {
		if (!is_ready(interface))
			return REASON_NOT_READY;
		if (passage->from_pod)
			return REASON_SPOOFED;
		/* Groups have many members, each with its own policy: no entry could stand for all. */
		return is_group(packet) ? ask(passage, passage->sender) : REASON_MISDELIVERED;
	}
	if (packet->kind == PACKET_ERROR)
		return is_ready(interface) ? judge_error(skb, passage) : REASON_NOT_READY;
	if (packet->fragment == FRAGMENT_LATER)
		return judge_later_fragment(passage);
	if (passage->from_pod)
		passage->routed = may_be_routed(passage);
	if (packet->protocol != IPPROTO_TCP)
		return datagram(passage);
	passage->proxy = new_flow_proxy(skb, passage);
	if (!passage->from_pod && passage->peer.flags & IDENTITY_HOST && !passage->proxy && is_inbound(skb, packet)) {
		passage->proxy = PROXY_INBOUND_0 | pod_end(passage);
		return REASON_NONE;
	}
	return tcp(passage);
}

static __always_inline int refuse(const struct passage *passage, enum reason reason)
{
	struct telling telling = { .type = EVENT_DENIED, .verdict = VERDICT_DENY, .reason = reason };

	count(COUNTER_PACKETS_REFUSED);
	/* That the connection was revoked has been told. */
	if (reason != REASON_REVOKED)
		tell_packet(passage, &telling);
	return POD_DROP;
}

/* A packet that reaches the pod at Envoy's end, or at the one that Envoy stands in for. */
static __always_inline int steer_to_pod(struct __sk_buff *skb, const struct passage *passage, bool is_envoys_end)
{
	struct weft_addr client = passage->packet.source;
	struct party party;

	if (is_envoys_end && is_upstream(passage->proxy))
		return turn_to(skb, skb->ifindex);
	if (is_envoys_end)
		/* Of the node itself; any other has got past the routing to Envoy. */
		return passage->peer.flags & IDENTITY_HOST ? turn_to(skb, LOOPBACK_INTERFACE) : refuse(passage, REASON_PROXY_DOWN);
	if ((passage->proxy & ~1) != PROXY_CHAINED_0)
		return POD_PASS;
	identify(&client, &party);
	return party.interface ? turn_to(skb, party.interface) : POD_DROP;
}

/* A packet of a flow that goes through Envoy, and that policy lets through. */
VERIFIED_ONCE int steer(struct __sk_buff *skb, const struct passage *passage)
{
	bool is_envoys_end;
	enum reason reason;

	if (!passage)
		return POD_DROP;
	if (passage->proxy == PROXY_OWN)
		return POD_PASS;
	is_envoys_end = passage->proxy != PROXY_DOWNSTREAM && (passage->proxy & 1) == pod_end(passage);
	if (!passage->from_pod)
		return steer_to_pod(skb, passage, is_envoys_end);
	/* The pod speaks in the place of Envoy, which speaks in its name or for it. */
	if (is_envoys_end || (passage->proxy & ~1) == PROXY_CHAINED_0)
		return refuse(passage, REASON_SPOOFED);
	reason = to_proxy(skb, passage);
	return reason ? refuse(passage, reason) : POD_PASS;
}

/* The way of what policy lets through. */
static __always_inline int go_on(struct __sk_buff *skb, const struct passage *passage)
{
	if (passage->proxy)
		return steer(skb, passage);
	return passage->routed && passage->from_pod ? route_out(skb, passage) : POD_PASS;
}

static __always_inline int pass(struct __sk_buff *skb, const struct passage *passage)
{
	struct telling telling = { .type = EVENT_AUDITED, .verdict = VERDICT_ALLOW, .reason = passage->rule.reason };

	if (passage->audited)
		tell_packet(passage, &telling);
	if (passage->packet.fragment == FRAGMENT_FIRST)
		remember_fragment(&passage->packet);
	return go_on(skb, passage);
}

/* What becomes of a packet whose flow is, as far as recall() knows, this one. */
static __always_inline int decide(struct __sk_buff *skb, struct passage *passage, struct flow *flow)
{
	enum acquaintance known = meet(passage, flow);
	enum reason reason;

	if (known == FLOW_PASSES)
		return go_on(skb, passage);
	if (known == FLOW_JUDGED && flow)
		reason = tcp_judged(passage, flow);
	else
		reason = judge_packet(skb, passage);
	return reason ? refuse(passage, reason) : pass(skb, passage);
}

static __always_inline int pod_packet(struct __sk_buff *skb, bool from_pod)
{
	struct passage passage = { .interface = skb->ifindex, .from_pod = from_pod };
	enum reason reason = parse(skb, &passage.packet);

	if (from_pod && skb->mark == MARK_TO_PROXY)
		return come_back(skb, &passage.packet, INBOUND_PORT);
	if (reason)
		return refuse(&passage, reason);
	if (passage.packet.kind == PACKET_LINK)
		return POD_PASS;
	if (passage.packet.fragment == FRAGMENT_LATER) {
		reason = follow_fragment(&passage.packet);
		if (reason)
			return refuse(&passage, reason);
	}
	passage.sender = flow_key_of(&passage.packet, &passage.key);
	return decide(skb, &passage, recall(&passage));
}

#endif
