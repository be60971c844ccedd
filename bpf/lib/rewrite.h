/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Puts other addresses and ports into packets, and keeps their checksums right (RFC 1624). Returns whether that went well. */
#ifndef WEFT_LIB_REWRITE_H
#define WEFT_LIB_REWRITE_H

#include "address.h"
#include "parse.h"

#define IPV4_CHECKSUM 10
#define IPV4_SOURCE 12
#define IPV4_DESTINATION 16
#define IPV6_SOURCE 8
#define IPV6_DESTINATION 24
#define TCP_CHECKSUM 16
#define UDP_CHECKSUM 6
#define ICMP_CHECKSUM 2

enum packet_end {
	END_SOURCE = 0,
	END_DESTINATION = 1,
};

static __always_inline __u32 address_offset(const struct packet *packet, __u32 end)
{
	if (packet->version == 4)
		return packet->network + (end ? IPV4_DESTINATION : IPV4_SOURCE);
	return packet->network + (end ? IPV6_DESTINATION : IPV6_SOURCE);
}

static __always_inline __u32 port_offset(const struct packet *packet, __u32 end)
{
	return packet->transport + (end ? 2 : 0);
}

static __always_inline __wsum difference6(const struct weft_addr *old, const struct weft_addr *new, __wsum seed)
{
	struct weft_addr from = *old, to = *new;

	return bpf_csum_diff(from.word, sizeof(from), to.word, sizeof(to), seed);
}

/* Writes an address into an IP header, with the checksum of that header where it has one. */
static __always_inline bool store_address(struct __sk_buff *skb, const struct packet *packet, __u32 end,
                                          const struct weft_addr *old, const struct weft_addr *new)
{
	__u32 offset = address_offset(packet, end);
	struct weft_addr copy = *new;

	if (packet->version == 6)
		return !bpf_skb_store_bytes(skb, offset, &copy, sizeof(copy), 0);
	if (bpf_l3_csum_replace(skb, packet->network + IPV4_CHECKSUM, old->word[3], copy.word[3], 4))
		return false;
	return !bpf_skb_store_bytes(skb, offset, &copy.word[3], 4, 0);
}

static __always_inline __u16 checksum_at(struct __sk_buff *skb, __u32 offset)
{
	__u16 sum = 0;

	bpf_skb_load_bytes(skb, offset, &sum, sizeof(sum));
	return sum;
}

/*
 * A change of IPv6 addresses. The helper takes it that an IP header's own checksum makes up for it, and would spoil the sum that a
 * device has made of the whole packet; without BPF_F_PSEUDO_HDR it does not, but leaves the checksum alone that a device is still to
 * complete. Which of them it is shows in what it does (Linux 6.16 has a flag for this).
 */
static __always_inline bool replace6(struct __sk_buff *skb, __u32 offset, __wsum change, __u64 flags)
{
	__u16 before = checksum_at(skb, offset);

	if (bpf_l4_csum_replace(skb, offset, 0, change, flags))
		return false;
	if (checksum_at(skb, offset) != before)
		return true;
	return !bpf_l4_csum_replace(skb, offset, 0, change, flags | BPF_F_PSEUDO_HDR);
}

static __always_inline bool replace_checksum(struct __sk_buff *skb, const struct packet *packet, const struct endpoint *old,
                                             const struct endpoint *new)
{
	bool is_udp = packet->protocol == IPPROTO_UDP;
	__u32 offset = packet->transport + (is_udp ? UDP_CHECKSUM : TCP_CHECKSUM);
	__u64 flags = is_udp ? BPF_F_MARK_MANGLED_0 : 0;

	if (packet->version == 6) {
		if (!replace6(skb, offset, difference6(&old->addr, &new->addr, 0), flags))
			return false;
	} else if (bpf_l4_csum_replace(skb, offset, old->addr.word[3], new->addr.word[3], flags | BPF_F_PSEUDO_HDR | 4)) {
		return false;
	}
	return !bpf_l4_csum_replace(skb, offset, old->port, new->port, flags | 2);
}

/* Replaces one end (enum packet_end) of a packet; `packet` has the new one then. */
VERIFIED_ONCE int rewrite(struct __sk_buff *skb, struct packet *packet, const struct endpoint *to, __u32 end)
{
	struct endpoint old = {}, new;

	if (!packet || !to)
		return false;
	new = *to;
	old.addr = end ? packet->destination : packet->source;
	old.port = end ? packet->destination_port : packet->source_port;
	/* Only the first fragment has ports and a checksum. */
	if (packet->fragment != FRAGMENT_LATER) {
		if (!replace_checksum(skb, packet, &old, &new))
			return false;
		if (bpf_skb_store_bytes(skb, port_offset(packet, end), &new.port, sizeof(new.port), 0))
			return false;
	}
	if (!store_address(skb, packet, end, &old.addr, &new.addr))
		return false;
	if (end) {
		packet->destination = new.addr;
		packet->destination_port = new.port;
	} else {
		packet->source = new.addr;
		packet->source_port = new.port;
	}
	return true;
}

/* The same inside of an ICMP error, for the packet that it quotes; `icmp` is where the error's own header begins. */
VERIFIED_ONCE int rewrite_quoted(struct __sk_buff *skb, const struct packet *quoted, const struct endpoint *to, __u32 end,
                                 __u32 icmp)
{
	struct weft_addr old;
	struct endpoint new;
	__be16 old_port;

	if (!quoted || !to)
		return false;
	new = *to;
	old = end ? quoted->destination : quoted->source;
	old_port = end ? quoted->destination_port : quoted->source_port;
	if (!store_address(skb, quoted, end, &old, &new.addr))
		return false;
	/* The quoted checksum makes up for the address in IPv4; the quoted transport checksum may not be there, and nobody looks at it. */
	if (quoted->version == 6 && !replace6(skb, icmp + ICMP_CHECKSUM, difference6(&old, &new.addr, 0), 0))
		return false;
	if (bpf_l4_csum_replace(skb, icmp + ICMP_CHECKSUM, old_port, new.port, 2))
		return false;
	return !bpf_skb_store_bytes(skb, port_offset(quoted, end), &new.port, sizeof(new.port), 0);
}

/* Replaces an address of an ICMP error itself. */
VERIFIED_ONCE int rewrite_error(struct __sk_buff *skb, const struct packet *packet, const struct weft_addr *to, __u32 end)
{
	struct weft_addr old, new;

	if (!packet || !to)
		return false;
	new = *to;
	old = end ? packet->destination : packet->source;
	if (packet->version == 6 && !replace6(skb, packet->transport + ICMP_CHECKSUM, difference6(&old, &new, 0), 0))
		return false;
	return store_address(skb, packet, end, &old, &new);
}

#endif
