/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What comes in from other nodes and from outside the cluster, and what goes there: connections to services are translated (abi/nat.h), and
 * those that are for local pods and belong to Envoy are handed over to it: those that the pod's policy leaves to Envoy (layer 7), and
 * with STEER_TUNNELS those to TUNNEL_PORT. While there is none of it, a packet costs a look at three maps.
 */
#include "lib/arrive.h"
#include "lib/parse.h"
#include "lib/inbound.h"
#include "lib/leave_node.h"
#include "lib/nat_error.h"

#define PACKET_OTHERHOST 3

/* Gives a packet to Envoy: a SYN to its listener, others to their sockets, by the agent's routing rule for the mark. */
static __always_inline int hand_over(struct __sk_buff *skb, const struct packet *packet)
{
	bool is_tunnel = packet->destination_port == bpf_htons(TUNNEL_PORT) && proxy_steering() & STEER_TUNNELS;

	/* Not taken, it is refused at the pod's interface. */
	if ((packet->tcp_flags & TCP_STEP) == TCP_SYN && assign_listener(skb, packet, is_tunnel ? PROXY_PORT : INBOUND_PORT))
		return TC_ACT_UNSPEC;
	skb->mark = MARK_TO_PROXY;
	return TC_ACT_UNSPEC;
}

static __always_inline bool is_tcp(const struct packet *packet)
{
	return packet->kind == PACKET_FLOW && packet->protocol == IPPROTO_TCP;
}

static __always_inline struct uplink *uplink_of(const struct __sk_buff *skb)
{
	__u32 interface = skb->ifindex;

	return bpf_map_lookup_elem(&uplinks, &interface);
}

/* Tunnels carry IP packets as they are. */
static __always_inline bool read_packet(struct __sk_buff *skb, const struct uplink *uplink, struct packet *packet)
{
	__u32 offset = 0;
	__be16 protocol = skb->protocol;

	if (!(uplink && !uplink->link_header) && parse_link(skb, packet, &protocol, &offset))
		return false;
	return packet->kind == PACKET_FLOW && !parse_network(skb, packet, protocol, offset) && packet->kind != PACKET_LINK;
}

static __always_inline bool is_enabled(void)
{
	struct nat_settings *settings = nat_settings_now();

	return settings && settings->enabled;
}

/* What translate_error(), come_in() and go_out() are for. */
static __always_inline bool is_translatable(struct packet *packet)
{
	if (packet->fragment == FRAGMENT_LATER && follow_fragment(packet))
		return false;
	return packet->protocol == IPPROTO_TCP || packet->protocol == IPPROTO_UDP;
}

static __always_inline int translate_in(struct __sk_buff *skb, struct packet *packet)
{
	int verdict;

	if (packet->kind == PACKET_ERROR)
		return translate_error(skb, packet, NAT_IN);
	if (!is_translatable(packet))
		return NAT_PASS;
	verdict = come_in(skb, packet);
	return verdict == NAT_OPEN ? open_session(skb, packet) : verdict;
}

static __always_inline int translate_out(struct __sk_buff *skb, struct packet *packet)
{
	if (packet->kind == PACKET_ERROR)
		return translate_error(skb, packet, NAT_OUT);
	return is_translatable(packet) ? go_out(skb, packet, skb->ifindex) : NAT_PASS;
}

/* Whether there may be something for weft_translate(). */
static __always_inline bool is_concerned(void)
{
	return proxy_steering() || is_enabled() || is_nat_active();
}

/* On the ingress of each uplink. */
SEC("tc")
int weft_from_uplink(struct __sk_buff *skb)
{
	struct uplink *uplink = uplink_of(skb);
	struct passage passage = {};
	int verdict = NOT_ROUTED;

	/* A bridge or a capture may show frames that are for others. */
	if (!uplink || skb->pkt_type == PACKET_OTHERHOST)
		return TC_ACT_UNSPEC;
	if (uplink->routed_mtu && read_packet(skb, uplink, &passage.packet))
		verdict = arrive(skb, &passage);
	if (verdict != NOT_ROUTED)
		return verdict;
	if (is_concerned())
		bpf_tail_call(skb, &translator, 0);
	return TC_ACT_UNSPEC;
}

/* Called by weft_from_uplink. */
SEC("tc")
int weft_translate(struct __sk_buff *skb)
{
	struct packet packet = {};

	if (!read_packet(skb, uplink_of(skb), &packet))
		return TC_ACT_UNSPEC;
	if ((is_enabled() || is_nat_active()) && translate_in(skb, &packet) == NAT_DROP)
		return TC_ACT_SHOT;
	if (!proxy_steering() || !is_tcp(&packet) || !is_inbound(skb, &packet))
		return TC_ACT_UNSPEC;
	return hand_over(skb, &packet);
}

/* Room for a packet is made only where there is something to translate. */
static __noinline int leave(struct __sk_buff *skb)
{
	struct packet packet = {};

	if (!read_packet(skb, uplink_of(skb), &packet))
		return TC_ACT_UNSPEC;
	return translate_out(skb, &packet) == NAT_DROP ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

/* On the egress of each uplink. */
SEC("tc")
int weft_to_uplink(struct __sk_buff *skb)
{
	return is_nat_active() ? leave(skb) : TC_ACT_UNSPEC;
}

/* What comes by the loopback interface is for a pod of this node, or for a tunnel to one of another. */
static __always_inline __u16 port_of_self(const struct packet *packet)
{
	struct weft_addr addr = packet->destination;
	struct party client, server;

	identify(&addr, &server);
	if (!server.interface)
		return ENTRY_PORT;
	addr = packet->source;
	identify(&addr, &client);
	return client.interface || client.flags & IDENTITY_HOST ? INBOUND_PORT : EMERGED_PORT;
}

/*
 * On the ingress of the loopback interface: what the node's own processes send to a pod, and the pod's interface has turned to here
 * (see steer_to_pod); and what Envoy opens to a pod of another node (see connect_upstream). Nothing else has the mark there.
 */
SEC("tc")
int weft_from_self(struct __sk_buff *skb)
{
	struct packet packet = {};

	if (skb->mark != MARK_TO_PROXY || parse(skb, &packet) || !is_tcp(&packet))
		return TC_ACT_UNSPEC;
	return come_back(skb, &packet, port_of_self(&packet));
}

char LICENSE[] SEC("license") = "GPL";
