/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Who is at an address. */
#ifndef WEFT_LIB_IDENTITY_H
#define WEFT_LIB_IDENTITY_H

#include "packet.h"

static __always_inline __u32 cidr_identity(const struct weft_addr *addr)
{
	struct cidr_key key = { .prefix = 128, .addr = *addr };
	__u32 *number = bpf_map_lookup_elem(&cidr_identities, &key);

	return number ? *number : IDENTITY_REFUSED;
}

static __always_inline void identify(const struct weft_addr *addr, struct party *party)
{
	struct identity *found = bpf_map_lookup_elem(&identities, addr);

	if (found) {
		party->identity = found->number;
		party->interface = found->interface;
		party->flags = found->flags;
	} else {
		party->identity = cidr_identity(addr);
		party->interface = 0;
		party->flags = PARTY_UNLISTED;
	}
}

#endif
