/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Host routing: what goes between local pods and pods of other nodes passes neither the node's IP stack nor its netfilter. A flow goes
 * this way with its first packet or never, and then in both directions: whoever tracks connections in the stack sees all of one, or
 * nothing. What the stack alone can do is left to it, packet by packet: fragments, IP options, VLAN tags, what is too large for the way
 * on, and what has come to the end of its hops.
 */
#ifndef WEFT_LIB_ROUTE_H
#define WEFT_LIB_ROUTE_H

#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#include "flow.h"
#include "identity.h"
#include "parse.h"

#define ROUTE_AF_INET 2
#define ROUTE_AF_INET6 10

/* Where, from the frame's beginning, the hop limit is. */
#define IPV4_HOPS (ETH_HLEN + 8)
#define IPV6_HOPS (ETH_HLEN + 7)

/* Not a pod of this node, and no node. */
static __always_inline bool is_remote_pod(const struct party *party)
{
	return !party->interface && !(party->flags & (IDENTITY_HOST | IDENTITY_REMOTE_NODE | PARTY_UNLISTED));
}

/* Whether a flow that a local pod opens is to go this way: its answers have to, so there must be a link to put them on. */
static __always_inline bool may_be_routed(const struct passage *passage)
{
	__u32 interface = passage->interface;

	return is_remote_pod(&passage->peer) && bpf_map_lookup_elem(&pod_links, &interface);
}

/* Whether a router that knows nothing but destinations and hops would do. */
static __always_inline bool is_plain(const struct __sk_buff *skb, const struct packet *packet)
{
	__u32 size = packet->version == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);

	return !skb->mark && !skb->vlan_present && packet->network == ETH_HLEN && packet->transport == ETH_HLEN + size &&
	       packet->fragment == FRAGMENT_NONE && packet->hop_limit > 1;
}

/* Bytes of the largest IP packet that the device will make of it. */
static __always_inline __u32 segment_length(const struct __sk_buff *skb, const struct packet *packet)
{
	__u32 payload = packet->next - packet->sequence - !!(packet->tcp_flags & TCP_SYN) - !!(packet->tcp_flags & TCP_FIN);

	if (!skb->gso_size || packet->protocol != IPPROTO_TCP)
		return packet->length;
	return packet->length - payload + skb->gso_size;
}

/*
 * What the device has summed up of a packet that came in (CHECKSUM_COMPLETE) is of everything behind the link header. IPv4's own checksum
 * makes up for the hop; IPv6 has none.
 */
static __always_inline bool pass_hop6(struct __sk_buff *skb)
{
	__u8 hops;

	if (bpf_skb_load_bytes(skb, IPV6_HOPS, &hops, sizeof(hops)))
		return false;
	hops--;
	return !bpf_skb_store_bytes(skb, IPV6_HOPS, &hops, sizeof(hops), BPF_F_RECOMPUTE_CSUM);
}

/* One hop less, and with `link` a link header that begins with it. */
static __always_inline bool pass_hop(struct __sk_buff *skb, const struct packet *packet, const struct pod_link *link)
{
	__u8 head[IPV4_HOPS + 4];
	__u16 sum;

	if (packet->version == 6)
		return pass_hop6(skb) && (!link || !bpf_skb_store_bytes(skb, 0, link, sizeof(*link), 0));
	if (bpf_skb_load_bytes(skb, 0, head, sizeof(head)))
		return false;
	head[IPV4_HOPS]--;
	/* RFC 1624: the checksum of a word that is less by 0x0100. */
	sum = head[IPV4_HOPS + 2] << 8 | head[IPV4_HOPS + 3];
	sum = sum >= 0xfeff ? sum - 0xfeff : sum + 0x0100;
	head[IPV4_HOPS + 2] = sum >> 8;
	head[IPV4_HOPS + 3] = sum;
	if (link)
		__builtin_memcpy(head, link, sizeof(*link));
	return !bpf_skb_store_bytes(skb, 0, head, sizeof(head), 0);
}

static __always_inline void fill_route(const struct packet *packet, struct bpf_fib_lookup *route)
{
	route->l4_protocol = packet->protocol;
	route->sport = packet->source_port;
	route->dport = packet->destination_port;
	if (packet->version == 4) {
		route->family = ROUTE_AF_INET;
		route->ipv4_src = packet->source.word[3];
		route->ipv4_dst = packet->destination.word[3];
		return;
	}
	route->family = ROUTE_AF_INET6;
	__builtin_memcpy(route->ipv6_src, &packet->source, sizeof(route->ipv6_src));
	__builtin_memcpy(route->ipv6_dst, &packet->destination, sizeof(route->ipv6_dst));
}

/* For so long a route that the kernel has named is not asked for again, by packets of the same flow. */
#define ROUTE_COUNTS_NS (10ULL * 1000 * 1000)

static __always_inline struct route_place *place_of(const struct packet *packet)
{
	__u32 ports = packet->source_port | (__u32)packet->destination_port << 16;
	/* Knuth's multiplicative hash: the upper bits depend on all. */
	__u32 place = (ports ^ packet->source.word[3] ^ packet->destination.word[3] * 31) * 2654435769U >> 24;

	_Static_assert(ROUTE_PLACES == 1 << (32 - 24), "one for each hash");
	return bpf_map_lookup_elem(&route_places, &place);
}

static __always_inline bool is_same_flow(const struct flow_key *one, const struct flow_key *two)
{
	const __u64 *a = (const __u64 *)one, *b = (const __u64 *)two;

	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] && a[4] == b[4];
}

static __always_inline bool counts(const struct route_place *place, const struct passage *passage, __u64 now)
{
	return now - place->asked_ns < ROUTE_COUNTS_NS && place->sender == passage->sender &&
	       is_same_flow(&place->flow, &passage->key);
}

/* Asks the kernel for the way of a packet of this length; false: by its stack. */
static __always_inline bool ask_way(struct __sk_buff *skb, const struct passage *passage, __u32 length, struct route_place *place,
                                    __u64 now)
{
	struct bpf_fib_lookup route = {};
	struct uplink *uplink;
	__u32 interface;
	long found;

	place->asked_ns = 0;
	fill_route(&passage->packet, &route);
	route.ifindex = skb->ifindex;
	/* The stack refuses what is too large for the way. The helper looks at what was learned of it, not at routes' own MTUs. */
	route.tot_len = length;
	found = bpf_fib_lookup(skb, &route, sizeof(route), config.fib_flags);
	if (found != BPF_FIB_LKUP_RET_SUCCESS && found != BPF_FIB_LKUP_RET_NO_NEIGH)
		return false;
	interface = route.ifindex;
	uplink = bpf_map_lookup_elem(&uplinks, &interface);
	if (!uplink || length > uplink->routed_mtu)
		return false;
	place->interface = interface;
	place->family = route.family;
	if (route.family == ROUTE_AF_INET)
		place->next_hop[0] = route.ipv4_dst;
	else
		__builtin_memcpy(place->next_hop, route.ipv6_dst, sizeof(place->next_hop));
	/* Without a neighbour the helper does not say how much fits. */
	if (found != BPF_FIB_LKUP_RET_SUCCESS)
		return true;
	place->mtu = route.mtu_result < uplink->routed_mtu ? route.mtu_result : uplink->routed_mtu;
	place->flow = passage->key;
	place->sender = passage->sender;
	place->asked_ns = now;
	return true;
}

/*
 * The kernel finds the next hop's link address, and asks for it where it is not known or has not been heard of for long. An address that
 * bpf_fib_lookup() gives would never be asked for again.
 */
static __always_inline int send_on(struct __sk_buff *skb, const struct packet *packet, const struct route_place *way)
{
	struct bpf_redir_neigh next = { .nh_family = way->family };

	__builtin_memcpy(next.ipv6_nh, way->next_hop, sizeof(next.ipv6_nh));
	return pass_hop(skb, packet, NULL) ? bpf_redirect_neigh(way->interface, &next, sizeof(next), 0) : TC_ACT_SHOT;
}

/* A packet of a local pod, of a flow with FLOW_SHORT_CUT: out by an uplink, or TC_ACT_UNSPEC for the stack. */
VERIFIED_ONCE int route_out(struct __sk_buff *skb, const struct passage *passage)
{
	__u64 now = bpf_ktime_get_coarse_ns();
	const struct packet *packet;
	struct route_place *way;
	__u32 length;

	if (!passage || !is_plain(skb, &passage->packet))
		return TC_ACT_UNSPEC;
	packet = &passage->packet;
	way = place_of(packet);
	if (!way)
		return TC_ACT_UNSPEC;
	length = segment_length(skb, packet);
	if (counts(way, passage, now) ? length > way->mtu : !ask_way(skb, passage, length, way, now))
		return TC_ACT_UNSPEC;
	return send_on(skb, packet, way);
}

/* Into the pod, as if it came by its interface. */
VERIFIED_ONCE int enter_pod(struct __sk_buff *skb, const struct passage *passage, const struct pod_link *link)
{
	if (!passage || !link || !pass_hop(skb, &passage->packet, link))
		return TC_ACT_SHOT;
	return bpf_redirect_peer(passage->interface, 0);
}

#endif
