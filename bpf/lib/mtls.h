/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What a pod takes from other nodes. Who opens connections asks once for each, and only where anybody's answer may matter. */
#ifndef WEFT_LIB_MTLS_H
#define WEFT_LIB_MTLS_H

#include "packet.h"

static __always_inline __u32 mtls_flags(void)
{
	__u32 zero = 0;
	struct mtls_state *state = bpf_map_lookup_elem(&mtls_state, &zero);

	return state ? state->flags : 0;
}

/* The entry that holds for a port of this address; 0: there is none. */
VERIFIED_ONCE int mtls_at(const struct weft_addr *addr, __be16 port)
{
	struct mtls_key key = {};
	__u32 *found, whole;

	if (!addr)
		return 0;
	key.addr = *addr;
	found = bpf_map_lookup_elem(&mtls_modes, &key);
	if (!found)
		return 0;
	whole = *found;
	if (!(whole & MTLS_PORTS))
		return whole;
	key.port = port;
	found = bpf_map_lookup_elem(&mtls_modes, &key);
	return found ? *found : whole;
}

/* Whether connections to a pod of another node go through a tunnel: all of them, or those that Envoy opens. */
static __always_inline bool needs_tunnel(const struct weft_addr *server, __be16 port, bool by_proxy)
{
	__u32 mode = mtls_at(server, port);

	if (!mode || mode & MTLS_HERE)
		return false;
	mode &= MTLS_MODE;
	return mode == MTLS_STRICT || (by_proxy && mode == MTLS_PERMISSIVE);
}

/* Whether plain text to a local pod is refused. */
static __always_inline bool requires_tunnel(const struct weft_addr *server, __be16 port, __u32 flags)
{
	__u32 mode = mtls_at(server, port);

	return mode ? (mode & MTLS_MODE) == MTLS_STRICT : flags & MTLS_NO_ROOM;
}

#endif
