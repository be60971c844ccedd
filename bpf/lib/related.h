/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* ICMP errors: let through when the packet that they quote belongs to a tracked flow. Path MTU discovery hangs on them. */
#ifndef WEFT_LIB_RELATED_H
#define WEFT_LIB_RELATED_H

#include "flow.h"
#include "fragment.h"
#include "parse.h"

/* The first bytes of a quoted transport header, which is all that an error has to quote (RFC 792). */
struct quoted_transport {
	__be16 source_port; /* ICMP: type and code */
	__be16 destination_port;
	__be16 echo_identifier; /* ICMP echo */
	__u16 rest;
};

static __always_inline enum reason quoted_ipv4(struct __sk_buff *skb, struct packet *quoted, __u32 offset)
{
	struct iphdr ip;
	__u32 fragment;

	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
		return REASON_MALFORMED;
	quoted->source = v4_mapped(ip.saddr);
	quoted->destination = v4_mapped(ip.daddr);
	quoted->protocol = ip.protocol;
	quoted->transport = offset + ip.ihl * 4;
	fragment = bpf_ntohs(ip.frag_off);
	quoted->fragment_id = bpf_htonl(bpf_ntohs(ip.id));
	return parse_fragment(quoted, (fragment & IPV4_OFFSET) * 8, fragment & IPV4_MORE_FRAGMENTS);
}

static __always_inline enum reason quoted_ipv6(struct __sk_buff *skb, struct packet *quoted, __u32 offset)
{
	struct ipv6hdr ip;
	__u32 left;

	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) || ip.version != 6)
		return REASON_MALFORMED;
	left = skb->len - offset - sizeof(ip);
	__builtin_memcpy(&quoted->source, &ip.saddr, sizeof(quoted->source));
	__builtin_memcpy(&quoted->destination, &ip.daddr, sizeof(quoted->destination));
	/* As parse_ipv6(): an error of one family is never about a flow of the other. */
	if (is_v4_mapped(&quoted->source) || is_v4_mapped(&quoted->destination))
		return REASON_MALFORMED;
	quoted->protocol = ip.nexthdr;
	quoted->transport = offset + sizeof(ip);
	return skip_extensions(skb, quoted, &left);
}

static __always_inline enum reason quoted_ports(struct __sk_buff *skb, struct packet *quoted)
{
	struct quoted_transport transport;

	if (quoted->fragment == FRAGMENT_LATER)
		return follow(quoted);
	if (bpf_skb_load_bytes(skb, quoted->transport, &transport, sizeof(transport)))
		return REASON_MALFORMED;
	switch (quoted->protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		quoted->source_port = transport.source_port;
		quoted->destination_port = transport.destination_port;
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (is_echo(quoted->version, *(__u8 *)&transport))
			quoted->source_port = quoted->destination_port = transport.echo_identifier;
		break;
	}
	return REASON_NONE;
}

static __always_inline struct flow *tracked(const struct flow_key *key)
{
	struct flow *flow = bpf_map_lookup_elem(&ct, key);

	return flow ? flow : bpf_map_lookup_elem(&ct_pending, key);
}

/*
 * An error goes to whoever sent the packet that it quotes. Any router on the way may have made it, but one that comes from a pod has
 * to be about a packet that was sent to that pod.
 */
VERIFIED_ONCE int related(struct __sk_buff *skb, struct passage *passage)
{
	const struct packet *packet;
	struct packet quoted = {};
	struct flow_key key = {};
	enum reason reason;
	__u32 offset, sender;
	struct flow *flow;

	if (!passage)
		return REASON_MALFORMED;
	packet = &passage->packet;
	quoted.version = packet->version;
	offset = packet->transport + sizeof(struct icmp_header);
	reason = packet->version == 4 ? quoted_ipv4(skb, &quoted, offset) : quoted_ipv6(skb, &quoted, offset);
	if (reason)
		return reason;
	reason = quoted_ports(skb, &quoted);
	if (reason)
		return reason;
	if (!addr_equal(&quoted.source, &packet->destination))
		return REASON_UNRELATED;
	if (passage->from_pod && !addr_equal(&quoted.destination, &packet->source))
		return REASON_UNRELATED;
	sender = either(flow_key_of(&quoted, &key));
	flow = tracked(&key);
	if (!flow || flow->state == FLOW_REVOKED)
		return REASON_UNRELATED;
	/* It goes the way of what it is about. */
	passage->routed = is_routed(flow);
	passage->receiver = flow->interface[sender];
	return REASON_NONE;
}

#endif
