/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Fragments after the first have no ports: they are taken for what the first one was, once that has been let through. */
#ifndef WEFT_LIB_FRAGMENT_H
#define WEFT_LIB_FRAGMENT_H

#include "packet.h"

static __always_inline struct fragment_key fragment_key_of(const struct packet *packet)
{
	struct fragment_key key = {
		.source = packet->source,
		.destination = packet->destination,
		.id = packet->fragment_id,
		.protocol = packet->version == 4 ? packet->protocol : 0,
	};

	return key;
}

VERIFIED_ONCE int remember_fragment(const struct packet *packet)
{
	struct fragment fragment = {};
	struct fragment_key key;

	if (!packet)
		return 0;
	key = fragment_key_of(packet);
	fragment.source_port = packet->source_port;
	fragment.destination_port = packet->destination_port;
	fragment.protocol = packet->protocol;
	/* Should there be no room, the rest is dropped as if it had come first. */
	return bpf_map_update_elem(&fragments, &key, &fragment, BPF_ANY);
}

/* Gives a later fragment the ports of the first; REASON_FRAGMENT if that was not seen. */
static __always_inline enum reason follow(struct packet *packet)
{
	struct fragment_key key = fragment_key_of(packet);
	struct fragment *first = bpf_map_lookup_elem(&fragments, &key);

	if (!first)
		return REASON_FRAGMENT;
	packet->source_port = first->source_port;
	packet->destination_port = first->destination_port;
	packet->protocol = first->protocol;
	return REASON_NONE;
}

VERIFIED_ONCE int follow_fragment(struct packet *packet)
{
	return packet ? follow(packet) : REASON_MALFORMED;
}

#endif
