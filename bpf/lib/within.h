/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Connections within one network namespace, and by which key a pair is found: see `accel_pairs`. */
#ifndef WEFT_LIB_WITHIN_H
#define WEFT_LIB_WITHIN_H

#include "address.h"

/* 127.0.0.0/8 (RFC 1122, 3.2.1.3) and ::1 (RFC 4291, 2.5.3). */
static __always_inline bool is_loopback(const struct weft_addr *addr)
{
	if (is_v4_mapped(addr))
		return (addr->word[3] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
	return addr->word[3] == bpf_htonl(1) && !addr->word[2] && !addr->word[1] && !addr->word[0];
}

/* Whether such a connection can have both ends in one namespace only. */
static __always_inline bool is_within_namespace(const struct flow_key *flow)
{
	return addr_equal(&flow->addr[0], &flow->addr[1]) || is_loopback(&flow->addr[0]) || is_loopback(&flow->addr[1]);
}

/* The key of the pair that this socket is an end of. */
static __always_inline struct accel_key pair_key_of(const struct accel_key *socket)
{
	struct accel_key key = { .flow = socket->flow };

	if (is_within_namespace(&socket->flow))
		key.netns = socket->netns;
	return key;
}

/* Whether its pod wants connections within itself accelerated. */
static __always_inline bool is_willing_namespace(__u32 netns)
{
	return bpf_map_lookup_elem(&accel_namespaces, &netns);
}

#endif
