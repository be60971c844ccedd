/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Packets that come in by an uplink: to a service from outside, or back from a backend on another node. */
#ifndef WEFT_LIB_OUTSIDE_H
#define WEFT_LIB_OUTSIDE_H

#include "choose.h"
#include "event.h"
#include "flow.h"
#include "fragment.h"
#include "identity.h"
#include "limits.h"
#include "nat.h"
#include "rewrite.h"

/* Ports below are of services, and their clients' programs may be asked for them. */
#define FIRST_ALIAS 1024
#define ALIAS_ATTEMPTS 16

/* Each address outside is a client of its own. No network namespace has such a cookie: those count from 1. */
static __always_inline __u64 client_of(const struct weft_addr *addr)
{
	__u64 high = (__u64)addr->word[0] << 32 | addr->word[1], low = (__u64)addr->word[2] << 32 | addr->word[3];

	return (high * 0x9e3779b97f4a7c15ULL ^ low) | 1ULL << 63;
}

VERIFIED_ONCE int tell_outside_refused(const struct packet *packet, __u32 service, __u32 why)
{
	struct event *event;

	if (!packet)
		return 0;
	count(COUNTER_OUTSIDE_REFUSED);
	event = reserve_event();
	if (!event)
		return 0;
	event->type = EVENT_DENIED;
	event->service = service;
	event->protocol = packet->protocol;
	event->source = packet->source;
	event->source_port = packet->source_port;
	event->destination = packet->destination;
	event->destination_port = packet->destination_port;
	event->tcp_flags = packet->tcp_flags;
	event->isn = packet->protocol == IPPROTO_TCP ? packet->sequence : 0;
	event->direction = DIRECTION_INGRESS;
	event->verdict = VERDICT_DENY;
	event->reason = why;
	submit_event(event);
	return 0;
}

static __always_inline bool is_let_in(const struct service_key *service, const struct packet *packet)
{
	struct source_range_key key = { .prefix = 8 * (sizeof(key) - sizeof(key.prefix)) };
	__u32 *known;

	key.service = *service;
	key.client = packet->source;
	known = bpf_map_lookup_elem(&source_ranges, &key);
	return !known || *known;
}

static __always_inline bool is_of_this_node(const struct weft_addr *addr)
{
	struct weft_addr copy = *addr;
	struct party party;

	identify(&copy, &party);
	return party.flags & IDENTITY_HOST;
}

/*
 * Without a backend a client is told so by the node itself, where the address is its own: nobody listens there. Where only backends of
 * this node are asked nobody answers, so that whoever spreads connections over nodes tries another.
 */
static __always_inline int refuse_for_want(const struct packet *packet, const struct choice *choice)
{
	tell_outside_refused(packet, choice->service, REASON_NO_BACKEND);
	if (choice->flags & SERVICE_NODE_ONLY || !is_of_this_node(&packet->destination))
		return NAT_DROP;
	return NAT_PASS;
}

/* The place in its service that an established connection takes, it takes only then: half-open ones that are evicted cannot give it back. */
static __always_inline enum reason admit_outside(struct choice *choice)
{
	__u32 service = choice->service;
	struct service_settings *settings;
	struct service_state *state;

	if (!(choice->flags & SERVICE_LIMITED))
		return REASON_NONE;
	settings = bpf_map_lookup_elem(&service_settings, &service);
	state = bpf_map_lookup_elem(&service_states, &service);
	if (settings && state && settings->max_connections && *(volatile __u64 *)&state->open >= settings->max_connections) {
		__sync_fetch_and_add(&state->limited, 1);
		return REASON_CONNECTION_LIMIT;
	}
	return admit(choice, false);
}

/* Tells the programs at the backend's interface through which service the connection comes, as announce() does for sockets. */
VERIFIED_ONCE int announce_outside(const struct packet *packet, const struct choice *choice)
{
	struct service_settings *settings;
	struct flow_key key = {};
	struct flow flow = {};
	__u32 service;

	if (!packet || !choice)
		return 0;
	service = choice->service;
	flow.service = service;
	flow.backend = choice->backend;
	if (flow_key_of(packet, &key))
		flow.flags = FLOW_FROM_END_1;
	if (choice->flags & SERVICE_AGED) {
		settings = bpf_map_lookup_elem(&service_settings, &service);
		flow.idle_s = settings ? settings->idle_s : 0;
		flow.lifetime_s = settings ? settings->lifetime_s : 0;
		if (flow.lifetime_s)
			flow.flags |= FLOW_HAS_LIFETIME;
	}
	flow.first_ns = bpf_ktime_get_coarse_ns();
	flow.last_ns = flow.first_ns;
	bpf_map_update_elem(&ct_pending, &key, &flow, BPF_ANY);
	return 0;
}

/* Whether the connection to which this head belongs is over, or there is none. */
static __always_inline bool is_over_or_gone(const struct nat_key *key)
{
	struct nat_entry *head = find_nat(key);

	return !head || head->state >= NAT_CLOSING;
}

/* Whether replies of this connection could not be told from another's. One that is over makes room. */
VERIFIED_ONCE int is_way_back_taken(const struct nat_session *of)
{
	struct nat_session earlier = {};
	struct nat_entry *entry;
	struct nat_key key;

	if (!of)
		return true;
	reply_key(of, &key);
	entry = find_nat(&key);
	if (!entry)
		return false;
	session_of_reply(&key, entry, &earlier);
	head_key(&earlier, &key);
	if (!is_over_or_gone(&key))
		return true;
	end_session(&key);
	reply_key(of, &key);
	forget_nat(&key);
	return false;
}

struct alias_search {
	struct nat_key key; /* of replies: only the client's port is still open */
	__be16 found;
	__u8 pad[6]; /* zero */
};

static long try_alias(__u32 step, struct alias_search *search)
{
	struct nat_key key = search->key;

	key.destination_port = bpf_htons(FIRST_ALIAS + random_below(65536 - FIRST_ALIAS));
	if (find_nat(&key))
		return 0;
	search->found = key.destination_port;
	return 1;
}

/* Another port for a client whose own would not do; 0 if there is none. */
VERIFIED_ONCE int find_alias(const struct nat_session *of)
{
	struct alias_search search = {};

	if (!of)
		return 0;
	reply_key(of, &search.key);
	bpf_loop(ALIAS_ATTEMPTS, try_alias, &search, 0);
	return search.found;
}

/* Whether packets to a backend leave this node, so that its answers have to be made to come back here. */
static __always_inline bool is_elsewhere(const struct weft_addr *backend)
{
	struct weft_addr addr = *backend;
	struct party party;

	identify(&addr, &party);
	return !party.interface && !(party.flags & IDENTITY_HOST);
}

/* The entries that go with a head. Those that are there stay. */
VERIFIED_ONCE int lay_out(const struct nat_session *session)
{
	struct nat_entry entry = {};
	struct nat_key key;

	if (!session)
		return 0;
	entry.last_ns = bpf_ktime_get_coarse_ns();
	entry.addr = session->vip.addr;
	entry.port = session->vip.port;
	if (session->seen_port != session->client.port)
		entry.client_port = session->client.port;
	reply_key(session, &key);
	if (!bpf_map_lookup_elem(&nat, &key))
		bpf_map_update_elem(&nat_pending, &key, &entry, BPF_NOEXIST);
	if (!is_elsewhere(&session->backend.addr))
		return 0;
	__builtin_memset(&entry.addr, 0, sizeof(entry.addr));
	entry.port = 0;
	entry.client_port = 0;
	entry.flags = NAT_MASQUERADE;
	masquerade_key(session, &key);
	if (!bpf_map_lookup_elem(&nat, &key))
		bpf_map_update_elem(&nat_pending, &key, &entry, BPF_NOEXIST);
	return 0;
}

/* For a head that is there. What it had besides may have been evicted, or swept because nobody answers. */
VERIFIED_ONCE int lay_out_again(const struct nat_key *key, const struct nat_entry *head)
{
	struct nat_session session = {};

	if (!key || !head)
		return 0;
	session_of_head(key, head, &session);
	return lay_out(&session);
}

static __always_inline void put_head(const struct nat_session *session, const struct choice *choice)
{
	struct nat_entry head = { .flags = NAT_HEAD };
	struct nat_key key;

	head.last_ns = bpf_ktime_get_coarse_ns();
	head.addr = choice->addr;
	head.port = choice->port;
	head.service = choice->service;
	head.backend = choice->backend;
	if (session->seen_port != session->client.port)
		head.client_port = session->seen_port;
	head_key(session, &key);
	bpf_map_update_elem(&nat_pending, &key, &head, BPF_ANY);
}

/* Gives the client another port; 0, or its own: it stays. Returns whether that went well. */
static __always_inline bool rename_port(struct __sk_buff *skb, struct packet *packet, __be16 port, __u32 end)
{
	struct endpoint to;

	if (!port || port == (end ? packet->destination_port : packet->source_port))
		return true;
	to = nat_end(end ? &packet->destination : &packet->source, port);
	return rewrite(skb, packet, &to, end);
}

/* A backend for a connection that may begin with this packet; NAT_OPEN: there is one, else what is to become of the packet. */
VERIFIED_ONCE int pick_backend(const struct packet *packet, struct choice *choice)
{
	struct service_key key = {};
	enum reason why;

	if (!packet || !choice)
		return NAT_DROP;
	key.addr = packet->destination;
	key.port = packet->destination_port;
	key.protocol = packet->protocol;
	key.outside = 1;
	if (!bpf_map_lookup_elem(&services, &key))
		return NAT_PASS;
	if (!is_let_in(&key, packet)) {
		tell_outside_refused(packet, 0, REASON_SOURCE_RANGE);
		return NAT_DROP;
	}
	switch (choose(&key, client_of(&packet->source), choice)) {
	case CHOICE_MADE:
		break;
	case CHOICE_NO_BACKEND:
		return refuse_for_want(packet, choice);
	default:
		return NAT_PASS;
	}
	why = admit_outside(choice);
	if (!why)
		return NAT_OPEN;
	tell_outside_refused(packet, choice->service, why);
	return NAT_DROP;
}

/* Begins a connection with this packet; enum nat_verdict. */
VERIFIED_ONCE int begin_session(struct __sk_buff *skb, struct packet *packet, const struct choice *choice)
{
	struct nat_session session = {};

	if (!packet || !choice)
		return NAT_DROP;
	session.client = nat_end(&packet->source, packet->source_port);
	session.vip = nat_end(&packet->destination, packet->destination_port);
	session.backend = nat_end(&choice->addr, choice->port);
	session.protocol = packet->protocol;
	session.seen_port = packet->source_port;
	if (is_way_back_taken(&session)) {
		session.seen_port = find_alias(&session);
		if (!session.seen_port) {
			tell_outside_refused(packet, choice->service, REASON_NO_PORT);
			return NAT_DROP;
		}
	}
	lay_out(&session);
	put_head(&session, choice);
	note_activity();
	count(COUNTER_OUTSIDE);
	if (packet->fragment == FRAGMENT_FIRST)
		remember_fragment(packet);
	if (!rewrite(skb, packet, &session.backend, END_DESTINATION) || !rename_port(skb, packet, session.seen_port, END_SOURCE))
		return NAT_DROP;
	if (packet->protocol == IPPROTO_TCP && !is_elsewhere(&session.backend.addr))
		announce_outside(packet, choice);
	return NAT_DONE;
}

/* What may begin a connection; enum nat_verdict. */
static __always_inline int open_session(struct __sk_buff *skb, struct packet *packet)
{
	struct choice choice = {};
	int verdict = pick_backend(packet, &choice);

	return verdict == NAT_OPEN ? begin_session(skb, packet, &choice) : verdict;
}

static __always_inline bool is_opening(const struct packet *packet)
{
	if (packet->fragment == FRAGMENT_LATER)
		return false;
	return packet->protocol == IPPROTO_UDP || (packet->tcp_flags & TCP_STEP) == TCP_SYN;
}

/* Whether the backend still is one of its service: a UDP client would go on asking one that is gone. */
static __always_inline bool still_serves(const struct nat_entry *head)
{
	struct backend *backend = backend_by_id(head->backend);

	return backend && backend->service == head->service && backend->flags & BACKEND_ACCEPTS;
}

/* Whether this packet begins a connection anew: from a port that had one, or as its backend has gone without an answer. */
static __always_inline bool is_anew(const struct packet *packet, const struct nat_entry *head)
{
	if (packet->protocol == IPPROTO_UDP)
		return packet->fragment != FRAGMENT_LATER && !still_serves(head);
	if ((packet->tcp_flags & TCP_STEP) != TCP_SYN)
		return false;
	return head->state >= NAT_CLOSING || (head->state == NAT_NEW && !still_serves(head));
}

/* Writes down that one side has said good-bye. */
static __always_inline void part(struct nat_entry *head, const struct packet *packet, __u8 fin)
{
	__u32 both = NAT_FLAG(NAT_FIN_CLIENT | NAT_FIN_SERVER);
	__u32 was = __sync_fetch_and_or(NAT_WORD(head), NAT_FLAG(fin));

	if (!(packet->tcp_flags & TCP_RST) && ((was | NAT_FLAG(fin)) & both) != both) {
		head->state = NAT_CLOSING;
		return;
	}
	head->state = NAT_CLOSED;
	uncount(head);
}

/* What the client does to its connection. */
static __always_inline void follow_client(struct nat_entry *head, const struct nat_key *key, const struct packet *packet)
{
	touch_nat(head);
	if (packet->protocol != IPPROTO_TCP || packet->fragment == FRAGMENT_LATER)
		return;
	if (packet->tcp_flags & (TCP_RST | TCP_FIN))
		part(head, packet, NAT_FIN_CLIENT);
	else if (head->state == NAT_ANSWERED && packet->tcp_flags & TCP_ACK && packet->acknowledged - head->answer <= 1U << 30)
		establish(key);
}

/* A packet that has come in by an uplink; enum nat_verdict. */
VERIFIED_ONCE int come_in(struct __sk_buff *skb, struct packet *packet)
{
	struct nat_entry *entry = NULL;
	struct nat_settings *settings;
	struct nat_key key = {};
	struct endpoint to;
	__be16 client_port;

	if (!packet)
		return NAT_DROP;
	nat_key_of(packet, NAT_IN, &key);
	if (is_nat_active())
		entry = find_nat(&key);
	if (entry && entry->flags & NAT_HEAD && is_anew(packet, entry)) {
		end_session(&key);
		entry = NULL;
	}
	if (!entry) {
		settings = nat_settings_now();
		return is_opening(packet) && settings && settings->enabled ? NAT_OPEN : NAT_PASS;
	}
	to = nat_end(&entry->addr, entry->port);
	client_port = entry->client_port;
	if (entry->flags & NAT_HEAD) {
		if (entry->state < NAT_ESTABLISHED && is_opening(packet))
			lay_out_again(&key, entry);
		follow_client(entry, &key, packet);
	} else {
		touch_nat(entry);
	}
	if (packet->fragment == FRAGMENT_FIRST)
		remember_fragment(packet);
	if (!rewrite(skb, packet, &to, END_DESTINATION) || !rename_port(skb, packet, client_port, END_SOURCE))
		return NAT_DROP;
	return NAT_DONE;
}

#endif
