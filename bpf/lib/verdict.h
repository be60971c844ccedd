/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What happens to a packet at a pod's interface. */
#ifndef WEFT_LIB_VERDICT_H
#define WEFT_LIB_VERDICT_H

#include <linux/pkt_cls.h>

#include "datagram.h"
#include "identity.h"
#include "proxy.h"
#include "related.h"
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
	FLOW_JUDGED, /* TCP, no SYN: of a flow in `ct` that was judged by policy as it is now, from the interface where its pod is */
	FLOW_PASSES, /* the same of any protocol, and it is established: one look-up, and nothing else to be asked */
};

static __always_inline void recall_ends(struct passage *passage, const struct flow *flow, __u32 pod)
{
	passage->pod.identity = flow->identity[pod];
	passage->pod.interface = flow->interface[pod];
	passage->peer.identity = flow->identity[other(pod)];
	passage->peer.interface = flow->interface[other(pod)];
}

static __always_inline enum acquaintance meet(struct passage *passage)
{
	const struct packet *packet = &passage->packet;
	__u32 pod, side, step = packet->tcp_flags & TCP_STEP;
	struct flow *flow;

	if (packet->kind != PACKET_FLOW || packet->fragment)
		return FLOW_UNKNOWN;
	flow = find_flow(&ct, passage);
	if (!flow)
		return FLOW_UNKNOWN;
	pod = pod_end(passage);
	side = side_of(passage, opener_of(flow));
	passage->proxy = flow->proxy;
	passage->epoch = policy_epoch();
	if (!passage->epoch || flow->epoch[side] != passage->epoch || flow->interface[pod] != passage->interface)
		return FLOW_UNKNOWN;
	if (packet->protocol != IPPROTO_TCP) {
		if (flow->state != FLOW_ESTABLISHED || crosses(passage, flow))
			return FLOW_UNKNOWN;
	} else if (step & TCP_SYN) {
		return FLOW_UNKNOWN;
	} else if (flow->state != FLOW_ESTABLISHED || step != TCP_ACK) {
		recall_ends(passage, flow, pod);
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

/* Whatever meet() does not settle. */
static __always_inline enum reason judge_packet(struct __sk_buff *skb, struct passage *passage)
{
	const struct packet *packet = &passage->packet;
	__u32 interface = passage->interface;

	passage->epoch = policy_epoch();
	if (!passage->epoch || !bpf_map_lookup_elem(&local_workloads, &interface))
		return REASON_NOT_READY;
	identify(&packet->source, passage->from_pod ? &passage->pod : &passage->peer);
	identify(&packet->destination, passage->from_pod ? &passage->peer : &passage->pod);
	if (passage->pod.interface != interface) {
		if (passage->from_pod)
			return REASON_SPOOFED;
		/* Groups have many members, each with its own policy: no entry could stand for all. */
		return is_group(packet) ? ask(passage, passage->sender) : REASON_MISDELIVERED;
	}
	if (packet->kind == PACKET_ERROR)
		return judge_error(skb, passage);
	if (packet->fragment == FRAGMENT_LATER)
		return judge_later_fragment(passage);
	if (packet->protocol != IPPROTO_TCP)
		return datagram(passage);
	passage->proxy = new_flow_proxy(skb, passage);
	if (passage->proxy == PROXY_OWN)
		passage->peer.flags &= ~IDENTITY_HOST;
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

/* A packet of a flow that goes through Envoy, and that policy lets through. */
VERIFIED_ONCE int steer(struct __sk_buff *skb, const struct passage *passage)
{
	bool is_downstream, is_envoys_end;
	enum reason reason;

	if (!passage)
		return POD_DROP;
	if (passage->proxy == PROXY_OWN)
		return POD_PASS;
	is_downstream = passage->proxy == PROXY_DOWNSTREAM;
	is_envoys_end = (passage->proxy & 1) == pod_end(passage);
	if (!passage->from_pod)
		return is_downstream || !is_envoys_end ? POD_PASS : turn_back(skb);
	/* The pod speaks in the place of Envoy, which speaks in its name. */
	if (!is_downstream && is_envoys_end)
		return refuse(passage, REASON_SPOOFED);
	reason = to_proxy(skb, passage);
	return reason ? refuse(passage, reason) : POD_PASS;
}

static __always_inline int pass(struct __sk_buff *skb, const struct passage *passage)
{
	struct telling telling = { .type = EVENT_AUDITED, .verdict = VERDICT_ALLOW, .reason = passage->rule.reason };

	if (passage->audited)
		tell_packet(passage, &telling);
	if (passage->packet.fragment == FRAGMENT_FIRST)
		remember_fragment(&passage->packet);
	return passage->proxy ? steer(skb, passage) : POD_PASS;
}

static __always_inline int pod_packet(struct __sk_buff *skb, bool from_pod)
{
	struct passage passage = { .interface = skb->ifindex, .from_pod = from_pod };
	enum reason reason = parse(skb, &passage.packet);
	enum acquaintance known;

	if (from_pod && skb->mark == MARK_TO_PROXY)
		return come_back(skb);
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
	known = meet(&passage);
	if (known == FLOW_PASSES)
		return passage.proxy ? steer(skb, &passage) : POD_PASS;
	passage.now = bpf_ktime_get_ns();
	reason = known == FLOW_JUDGED ? tcp(&passage) : judge_packet(skb, &passage);
	return reason ? refuse(&passage, reason) : pass(skb, &passage);
}

#endif
