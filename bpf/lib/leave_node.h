/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Packets that leave by an uplink: to a client outside, or on to a backend on another node. */
#ifndef WEFT_LIB_LEAVE_NODE_H
#define WEFT_LIB_LEAVE_NODE_H

#include "outside.h"

/* Each failed attempt is a port that another connection to the same backend has. */
#define PORT_ATTEMPTS 16

struct port_search {
	struct nat_key key; /* of the way back: only its port is still open */
	struct nat_entry entry;
	__u32 first;
	__u32 ports;
	__be16 found;
	__u8 pad[6]; /* zero */
};

static long try_port(__u32 step, struct port_search *search)
{
	__u16 port = search->first + random_below(search->ports);
	struct nat_key key = search->key;

	key.destination_port = bpf_htons(port);
	if (bpf_map_lookup_elem(&nat, &key) || bpf_map_update_elem(&nat_pending, &key, &search->entry, BPF_NOEXIST))
		return 0;
	search->found = key.destination_port;
	return 1;
}

/* Gives a connection an address and port of this node, which no other one to the same backend has; 0 if there is none. */
VERIFIED_ONCE int take_port(const struct packet *packet, struct endpoint *here, __u32 interface)
{
	struct uplink *uplink = bpf_map_lookup_elem(&uplinks, &interface);
	struct nat_settings *settings = nat_settings_now();
	struct port_search search = {};

	if (!packet || !here || !uplink || !settings || !settings->ports)
		return 0;
	here->addr = packet->version == 4 ? uplink->addr4 : uplink->addr6;
	if (!here->addr.word[3] && !here->addr.word[0])
		return 0;
	search.key.source = packet->destination;
	search.key.source_port = packet->destination_port;
	search.key.destination = here->addr;
	search.key.protocol = packet->protocol;
	search.key.stage = NAT_IN;
	search.entry.addr = packet->source;
	search.entry.port = packet->source_port;
	search.entry.last_ns = bpf_ktime_get_coarse_ns();
	search.first = settings->first_port;
	search.ports = settings->ports;
	bpf_loop(PORT_ATTEMPTS, try_port, &search, 0);
	here->port = search.found;
	return search.found != 0;
}

/* What the backend does to its connection. */
VERIFIED_ONCE int follow_server(const struct nat_key *of, const struct nat_entry *reply, const struct packet *packet)
{
	struct nat_session session = {};
	struct nat_entry *head;
	struct nat_key key;
	__u8 step;

	if (!of || !reply || !packet)
		return 0;
	session_of_reply(of, reply, &session);
	head_key(&session, &key);
	head = find_nat(&key);
	if (!head)
		return 0;
	step = packet->tcp_flags & TCP_STEP;
	if (packet->protocol == IPPROTO_UDP) {
		if (head->state < NAT_ESTABLISHED)
			establish(&key);
	} else if (step == (TCP_SYN | TCP_ACK)) {
		if (head->state == NAT_NEW || head->state == NAT_ANSWERED) {
			head->answer = packet->sequence + 1;
			head->state = NAT_ANSWERED;
		}
	} else if (step & (TCP_RST | TCP_FIN)) {
		part(head, packet, NAT_FIN_SERVER);
	}
	return 0;
}

/* Most packets of a connection change nothing about it. */
static __always_inline bool is_of_note(const struct nat_key *key, const struct packet *packet)
{
	if (packet->fragment == FRAGMENT_LATER)
		return false;
	if (packet->protocol == IPPROTO_UDP)
		return bpf_map_lookup_elem(&nat_pending, key);
	return packet->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST);
}

/* Gives a packet to a backend elsewhere the address from which it goes on, once there is one; false: there is none. */
static __always_inline bool masquerade(struct nat_entry *entry, const struct packet *packet, struct endpoint *from, __u32 interface)
{
	if (from->port)
		return true;
	if (packet->fragment == FRAGMENT_LATER || !take_port(packet, from, interface)) {
		tell_outside_refused(packet, 0, REASON_NO_PORT);
		return false;
	}
	entry->addr = from->addr;
	barrier();
	entry->port = from->port;
	return true;
}

/* A packet that leaves by the uplink `interface`; enum nat_verdict. */
VERIFIED_ONCE int go_out(struct __sk_buff *skb, struct packet *packet, __u32 interface)
{
	struct nat_entry *entry;
	struct nat_key key = {};
	struct endpoint from;
	__be16 client_port;

	if (!packet)
		return NAT_DROP;
	nat_key_of(packet, NAT_OUT, &key);
	entry = find_nat(&key);
	if (!entry)
		return NAT_PASS;
	touch_nat(entry);
	from = nat_end(&entry->addr, entry->port);
	client_port = entry->client_port;
	if (entry->flags & NAT_MASQUERADE) {
		if (!masquerade(entry, packet, &from, interface))
			return NAT_DROP;
	} else if (is_of_note(&key, packet)) {
		follow_server(&key, entry, packet);
	}
	if (packet->fragment == FRAGMENT_FIRST)
		remember_fragment(packet);
	if (!rewrite(skb, packet, &from, END_SOURCE) || !rename_port(skb, packet, client_port, END_DESTINATION))
		return NAT_DROP;
	return NAT_DONE;
}

#endif
