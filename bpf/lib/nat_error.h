/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * ICMP errors about translated packets. They quote a packet as it was when somebody could not send it on; whoever sent it knows it by
 * other addresses. Path MTU discovery of clients outside and of their backends hangs on this.
 */
#ifndef WEFT_LIB_NAT_ERROR_H
#define WEFT_LIB_NAT_ERROR_H

#include "nat.h"
#include "related.h"
#include "rewrite.h"

/*
 * A quoted packet has gone the other way: the entry that would translate its answer at this place knows what it was before.
 *
 * Coming in, it left here: its source, to which the error goes, is what a source was replaced with. Leaving, it came in here: its
 * destination is what a destination was replaced with, and that has made the error itself or somebody behind it has.
 */
VERIFIED_ONCE int translate_error(struct __sk_buff *skb, const struct packet *packet, __u32 stage)
{
	struct packet quoted = {};
	struct nat_entry *entry;
	struct nat_key key = {};
	struct endpoint to, client = {};
	__u32 offset;

	if (!packet)
		return NAT_PASS;
	quoted.version = packet->version;
	offset = packet->transport + sizeof(struct icmp_header);
	quoted.network = offset;
	if (packet->version == 4 ? quoted_ipv4(skb, &quoted, offset) : quoted_ipv6(skb, &quoted, offset))
		return NAT_PASS;
	if (quoted.fragment == FRAGMENT_LATER || quoted_ports(skb, &quoted) || !addr_equal(&quoted.source, &packet->destination))
		return NAT_PASS;
	key.source = quoted.destination;
	key.source_port = quoted.destination_port;
	key.destination = quoted.source;
	key.destination_port = quoted.source_port;
	key.protocol = quoted.protocol;
	key.stage = stage;
	entry = find_nat(&key);
	if (!entry || !entry->port)
		return NAT_PASS;
	to = nat_end(&entry->addr, entry->port);
	client.port = entry->client_port;
	if (client.port) {
		client.addr = stage == NAT_IN ? quoted.destination : quoted.source;
		if (!rewrite_quoted(skb, &quoted, &client, stage == NAT_IN ? END_DESTINATION : END_SOURCE, packet->transport))
			return NAT_DROP;
	}
	if (stage == NAT_IN) {
		if (!rewrite_quoted(skb, &quoted, &to, END_SOURCE, packet->transport))
			return NAT_DROP;
		return rewrite_error(skb, packet, &to.addr, END_DESTINATION) ? NAT_DONE : NAT_DROP;
	}
	if (!rewrite_quoted(skb, &quoted, &to, END_DESTINATION, packet->transport))
		return NAT_DROP;
	if (!addr_equal(&packet->source, &quoted.destination))
		return NAT_DONE;
	return rewrite_error(skb, packet, &to.addr, END_SOURCE) ? NAT_DONE : NAT_DROP;
}

#endif
