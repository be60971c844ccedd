/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* From a frame to a struct packet. Every function returns why the packet cannot be let through, REASON_NONE if it may. */
#ifndef WEFT_LIB_PARSE_H
#define WEFT_LIB_PARSE_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "address.h"
#include "packet.h"

#define MAX_VLAN_TAGS 2
#define MAX_EXTENSION_HEADERS 6
#define MAX_HEADER_OFFSET 0x3fff

#define IPV4_MORE_FRAGMENTS 0x2000
#define IPV4_OFFSET 0x1fff
#define IPV6_MORE_FRAGMENTS 0x0001
#define IPV6_OFFSET 0xfff8

/* Types of RFC 792. */
#define ICMP_ECHO_REPLY 0
#define ICMP_UNREACHABLE 3
#define ICMP_SOURCE_QUENCH 4
#define ICMP_ECHO_REQUEST 8
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER_PROBLEM 12

/* Types of RFC 4443, 2710, 4861 and 3810. */
#define ICMP6_ERROR_LAST 127
#define ICMP6_ECHO_REQUEST 128
#define ICMP6_ECHO_REPLY 129
#define ICMP6_MLD_FIRST 130
#define ICMP6_MLD_LAST 132
#define ICMP6_ND_FIRST 133
#define ICMP6_ND_LAST 137
#define ICMP6_MLD2_REPORT 143

/* In both families; the C library's headers do not compile for BPF. */
struct icmp_header {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be16 identifier; /* of echo */
	__be16 sequence;   /* likewise */
};

struct vlan_tag {
	__be16 tci;
	__be16 protocol;
};

struct extension {
	__u8 next;
	__u8 length;
	__be16 fragment; /* of the fragment header: offset and more-fragments bit */
	__be32 id;       /* likewise */
};

/* Read anew each time: the compiler would keep 32 bits of what the verifier has to see as a pointer. */
static __always_inline void *frame_begin(const struct __sk_buff *skb)
{
	return (void *)(long)*(const volatile __u32 *)&skb->data;
}

static __always_inline void *frame_end(const struct __sk_buff *skb)
{
	return (void *)(long)*(const volatile __u32 *)&skb->data_end;
}

/* `size` bytes at `offset` of the frame, made linear if need be: earlier pointers into the packet are void then. */
static __always_inline void *header(struct __sk_buff *skb, __u32 offset, __u32 size)
{
	void *found;

	/* Beyond all extension headers there can be: for the verifier, which asks for a bound. */
	if (offset > MAX_HEADER_OFFSET)
		return NULL;
	found = frame_begin(skb) + offset;
	if (found + size <= frame_end(skb))
		return found;
	if (bpf_skb_pull_data(skb, offset + size))
		return NULL;
	found = frame_begin(skb) + offset;
	return found + size <= frame_end(skb) ? found : NULL;
}

static __always_inline enum reason parse_tcp(struct __sk_buff *skb, struct packet *packet, __u32 left)
{
	struct tcphdr *tcp = header(skb, packet->transport, sizeof(*tcp));
	__u32 size;

	if (!tcp || left < sizeof(*tcp))
		return REASON_MALFORMED;
	size = tcp->doff * 4;
	if (size < sizeof(*tcp) || (size > left && packet->fragment == FRAGMENT_NONE))
		return REASON_MALFORMED;
	packet->source_port = tcp->source;
	packet->destination_port = tcp->dest;
	packet->sequence = bpf_ntohl(tcp->seq);
	packet->acknowledged = bpf_ntohl(tcp->ack_seq);
	packet->tcp_flags = ((__u8 *)tcp)[13];
	packet->next = packet->sequence + (left > size ? left - size : 0) + tcp->syn + tcp->fin;
	return REASON_NONE;
}

static __always_inline enum reason parse_udp(struct __sk_buff *skb, struct packet *packet, __u32 left)
{
	struct udphdr *udp = header(skb, packet->transport, sizeof(*udp));
	__u32 length;

	if (!udp || left < sizeof(*udp))
		return REASON_MALFORMED;
	length = bpf_ntohs(udp->len);
	/* A first fragment states the length of the whole; a segmentation-offloaded packet may state that of one segment or none. */
	if (length < sizeof(*udp) && !skb->gso_size)
		return REASON_MALFORMED;
	if (length > left && packet->fragment == FRAGMENT_NONE && !skb->gso_size)
		return REASON_MALFORMED;
	packet->source_port = udp->source;
	packet->destination_port = udp->dest;
	return REASON_NONE;
}

/* SCTP's common header begins with the ports, as UDP's does; 12 bytes (RFC 9260 3.1). */
static __always_inline enum reason parse_sctp(struct __sk_buff *skb, struct packet *packet, __u32 left)
{
	__be16 *ports = header(skb, packet->transport, 12);

	if (!ports || left < 12)
		return REASON_MALFORMED;
	packet->source_port = ports[0];
	packet->destination_port = ports[1];
	return REASON_NONE;
}

static __always_inline bool is_echo(__u8 version, __u8 type)
{
	if (version == 4)
		return type == ICMP_ECHO_REQUEST || type == ICMP_ECHO_REPLY;
	return type == ICMP6_ECHO_REQUEST || type == ICMP6_ECHO_REPLY;
}

/* Errors are about one packet that a router could not deliver. Redirects are not: policy decides whom a pod may believe. */
static __always_inline bool is_error(__u8 version, __u8 type)
{
	if (version == 4)
		return type == ICMP_UNREACHABLE || type == ICMP_SOURCE_QUENCH || type == ICMP_TIME_EXCEEDED ||
		       type == ICMP_PARAMETER_PROBLEM;
	return type <= ICMP6_ERROR_LAST;
}

/*
 * Neighbour discovery and multicast listeners. Their hop limits show that no router has forwarded them (RFC 4861 7.1, RFC 3810 5):
 * what looks like them and comes from further away is judged as all ICMP.
 */
static __always_inline bool is_of_link6(__u8 type, __u8 hop_limit)
{
	if (type >= ICMP6_ND_FIRST && type <= ICMP6_ND_LAST)
		return hop_limit == 255;
	return ((type >= ICMP6_MLD_FIRST && type <= ICMP6_MLD_LAST) || type == ICMP6_MLD2_REPORT) && hop_limit == 1;
}

static __always_inline enum reason parse_icmp(struct __sk_buff *skb, struct packet *packet, __u32 left)
{
	struct icmp_header *icmp = header(skb, packet->transport, sizeof(*icmp));

	if (!icmp || left < sizeof(*icmp))
		return REASON_MALFORMED;
	if (is_echo(packet->version, icmp->type)) {
		packet->source_port = packet->destination_port = icmp->identifier;
		packet->opens = icmp->type == (packet->version == 4 ? ICMP_ECHO_REQUEST : ICMP6_ECHO_REQUEST);
	} else if (is_error(packet->version, icmp->type)) {
		packet->kind = PACKET_ERROR;
	} else if (packet->version == 6 && is_of_link6(icmp->type, packet->hop_limit)) {
		packet->kind = PACKET_LINK;
	}
	return REASON_NONE;
}

/* `left`: bytes of the packet after its IP headers. */
static __always_inline enum reason parse_transport(struct __sk_buff *skb, struct packet *packet, __u32 left)
{
	switch (packet->protocol) {
	case IPPROTO_TCP:
		return parse_tcp(skb, packet, left);
	case IPPROTO_UDP:
		return parse_udp(skb, packet, left);
	case IPPROTO_SCTP:
		return parse_sctp(skb, packet, left);
	case IPPROTO_ICMP:
		return packet->version == 4 ? parse_icmp(skb, packet, left) : REASON_NONE;
	case IPPROTO_ICMPV6:
		return packet->version == 6 ? parse_icmp(skb, packet, left) : REASON_NONE;
	default:
		return REASON_NONE;
	}
}

/* Offset in bytes. A fragment that begins inside the TCP header would write over the flags that were judged (RFC 1858). */
static __always_inline enum reason parse_fragment(struct packet *packet, __u32 offset, bool more)
{
	if (!offset) {
		packet->fragment = more ? FRAGMENT_FIRST : FRAGMENT_NONE;
		return REASON_NONE;
	}
	packet->fragment = FRAGMENT_LATER;
	return offset < sizeof(struct tcphdr) ? REASON_MALFORMED : REASON_NONE;
}

static __always_inline enum reason parse_ipv4(struct __sk_buff *skb, struct packet *packet, __u32 offset)
{
	struct iphdr *ip = header(skb, offset, sizeof(*ip));
	__u32 size, length, present, fragment;
	enum reason reason;

	if (!ip)
		return REASON_MALFORMED;
	present = skb->len - offset;
	size = ip->ihl * 4;
	length = bpf_ntohs(ip->tot_len);
	/* More than 64 KiB, to be cut up by the device (BIG TCP). */
	if (!length && skb->gso_size)
		length = present;
	if (ip->version != 4 || size < sizeof(*ip) || length < size || length > present)
		return REASON_MALFORMED;
	packet->version = 4;
	packet->network = offset;
	packet->source = v4_mapped(ip->saddr);
	packet->destination = v4_mapped(ip->daddr);
	packet->protocol = ip->protocol;
	packet->hop_limit = ip->ttl;
	packet->length = length;
	packet->transport = offset + size;
	fragment = bpf_ntohs(ip->frag_off);
	if (fragment & (IPV4_OFFSET | IPV4_MORE_FRAGMENTS)) {
		packet->fragment_id = bpf_htonl(bpf_ntohs(ip->id));
		reason = parse_fragment(packet, (fragment & IPV4_OFFSET) * 8, fragment & IPV4_MORE_FRAGMENTS);
		if (reason || packet->fragment == FRAGMENT_LATER)
			return reason;
	}
	return parse_transport(skb, packet, length - size);
}

/* Size of an extension header; 0 if it is none. */
static __always_inline __u32 extension_size(__u8 protocol, const struct extension *extension)
{
	switch (protocol) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
		return (extension->length + 1) * 8;
	case IPPROTO_FRAGMENT:
		return sizeof(*extension);
	case IPPROTO_AH:
		return (extension->length + 2) * 4;
	default:
		return 0;
	}
}

static __always_inline bool is_extension(__u8 protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING || protocol == IPPROTO_DSTOPTS ||
	       protocol == IPPROTO_FRAGMENT || protocol == IPPROTO_AH;
}

/* Goes to the transport header, or to the end of what a later fragment tells. Takes from `left` what it has passed. */
static __always_inline enum reason skip_extensions(struct __sk_buff *skb, struct packet *packet, __u32 *left)
{
	for (int i = 0; i < MAX_EXTENSION_HEADERS; i++) {
		struct extension extension;
		enum reason reason;
		__u32 size;

		if (!is_extension(packet->protocol))
			return REASON_NONE;
		if (bpf_skb_load_bytes(skb, packet->transport, &extension, sizeof(extension)))
			return REASON_MALFORMED;
		size = extension_size(packet->protocol, &extension);
		if (size > *left)
			return REASON_MALFORMED;
		if (packet->protocol == IPPROTO_FRAGMENT) {
			__u16 fragment = bpf_ntohs(extension.fragment);

			if (packet->fragment)
				return REASON_MALFORMED;
			packet->fragment_id = extension.id;
			reason = parse_fragment(packet, fragment & IPV6_OFFSET, fragment & IPV6_MORE_FRAGMENTS);
			if (reason || packet->fragment == FRAGMENT_LATER)
				return reason;
		}
		packet->protocol = extension.next;
		packet->transport += size;
		*left -= size;
	}
	return is_extension(packet->protocol) ? REASON_UNSUPPORTED : REASON_NONE;
}

static __always_inline enum reason parse_ipv6(struct __sk_buff *skb, struct packet *packet, __u32 offset)
{
	struct ipv6hdr *ip = header(skb, offset, sizeof(*ip));
	enum reason reason;
	__u32 left, present;

	if (!ip || ip->version != 6)
		return REASON_MALFORMED;
	present = skb->len - offset - sizeof(*ip);
	left = bpf_ntohs(ip->payload_len);
	/* As for IPv4: BIG TCP. */
	if (!left && skb->gso_size)
		left = present;
	if (left > present)
		return REASON_MALFORMED;
	packet->version = 6;
	packet->network = offset;
	__builtin_memcpy(&packet->source, &ip->saddr, sizeof(packet->source));
	__builtin_memcpy(&packet->destination, &ip->daddr, sizeof(packet->destination));
	/* Nothing on a wire is v4-mapped (RFC 4038 4.2). Here it would be taken for the IPv4 address. */
	if (is_v4_mapped(&packet->source) || is_v4_mapped(&packet->destination))
		return REASON_MALFORMED;
	packet->protocol = ip->nexthdr;
	packet->length = sizeof(*ip) + left;
	packet->transport = offset + sizeof(*ip);
	packet->hop_limit = ip->hop_limit;
	reason = skip_extensions(skb, packet, &left);
	if (reason || packet->fragment == FRAGMENT_LATER)
		return reason;
	return parse_transport(skb, packet, left);
}

/* Group addresses that no bridge forwards (IEEE 802.1Q table 8-1): spanning tree, LLDP and the like. */
static __always_inline bool is_link_group(const struct ethhdr *link)
{
	const __u8 *to = link->h_dest;

	return to[0] == 0x01 && to[1] == 0x80 && to[2] == 0xc2 && !to[3] && !to[4] && to[5] < 0x10;
}

/*
 * The link's header: what follows it (an Ethernet type) and where that begins. PACKET_LINK is the link's own business, whatever follows.
 */
static __always_inline enum reason parse_link(struct __sk_buff *skb, struct packet *packet, __be16 *protocol, __u32 *offset)
{
	struct ethhdr *link = header(skb, 0, sizeof(*link));

	if (!link)
		return REASON_MALFORMED;
	*offset = sizeof(*link);
	if (is_link_group(link)) {
		packet->kind = PACKET_LINK;
		return REASON_NONE;
	}
	*protocol = link->h_proto;
	/* A tag that the device has taken off is in the metadata, and the frame is as untagged. */
	for (int i = 0; i < MAX_VLAN_TAGS && (*protocol == bpf_htons(ETH_P_8021Q) || *protocol == bpf_htons(ETH_P_8021AD)); i++) {
		struct vlan_tag *tag = header(skb, *offset, sizeof(*tag));

		if (!tag)
			return REASON_MALFORMED;
		*protocol = tag->protocol;
		*offset += sizeof(*tag);
	}
	return REASON_NONE;
}

/* What follows the link's header. */
static __always_inline enum reason parse_network(struct __sk_buff *skb, struct packet *packet, __be16 protocol, __u32 offset)
{
	switch (protocol) {
	case bpf_htons(ETH_P_IP):
		return parse_ipv4(skb, packet, offset);
	case bpf_htons(ETH_P_IPV6):
		return parse_ipv6(skb, packet, offset);
	case bpf_htons(ETH_P_ARP):
	case bpf_htons(ETH_P_RARP):
		packet->kind = PACKET_LINK;
		return REASON_NONE;
	default:
		return REASON_UNSUPPORTED;
	}
}

static __always_inline enum reason parse(struct __sk_buff *skb, struct packet *packet)
{
	__be16 protocol = 0;
	__u32 offset = 0;
	enum reason reason = parse_link(skb, packet, &protocol, &offset);

	if (reason || packet->kind == PACKET_LINK)
		return reason;
	return parse_network(skb, packet, protocol, offset);
}

#endif
