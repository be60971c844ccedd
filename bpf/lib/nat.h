/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The entries of abi/nat.h: how they are found, how they hang together, and how a connection grows old with them. */
#ifndef WEFT_LIB_NAT_H
#define WEFT_LIB_NAT_H

#include "address.h"
#include "backend.h"
#include "counter.h"
#include "load.h"
#include "packet.h"

/* What is to become of a packet. */
enum nat_verdict {
	NAT_PASS = 0, /* nothing here is about it */
	NAT_DONE = 1, /* translated */
	NAT_DROP = 2,
	NAT_OPEN = 3, /* may begin a connection: for open_session() */
};

/* Who is asked for what, and who answers. */
struct nat_session {
	struct endpoint client;
	struct endpoint vip;
	struct endpoint backend;
	__u32 protocol;
	__be16 seen_port; /* the client's, as the backend sees it */
	__u16 pad;        /* zero */
};

static __always_inline void fill_nat_key(struct nat_key *key, __u8 stage, __u8 protocol, const struct endpoint *source,
                                         const struct endpoint *destination)
{
	key->source = source->addr;
	key->destination = destination->addr;
	key->source_port = source->port;
	key->destination_port = destination->port;
	key->protocol = protocol;
	key->stage = stage;
	key->pad = 0;
}

static __always_inline void nat_key_of(const struct packet *packet, __u8 stage, struct nat_key *key)
{
	key->source = packet->source;
	key->destination = packet->destination;
	key->source_port = packet->source_port;
	key->destination_port = packet->destination_port;
	key->protocol = packet->protocol;
	key->stage = stage;
	key->pad = 0;
}

static __always_inline void head_key(const struct nat_session *session, struct nat_key *key)
{
	fill_nat_key(key, NAT_IN, session->protocol, &session->client, &session->vip);
}

static __always_inline void reply_key(const struct nat_session *session, struct nat_key *key)
{
	fill_nat_key(key, NAT_OUT, session->protocol, &session->backend, &session->client);
	key->destination_port = session->seen_port;
}

static __always_inline void masquerade_key(const struct nat_session *session, struct nat_key *key)
{
	fill_nat_key(key, NAT_OUT, session->protocol, &session->client, &session->backend);
	key->source_port = session->seen_port;
}

static __always_inline void back_key(const struct nat_session *session, const struct endpoint *here, struct nat_key *key)
{
	fill_nat_key(key, NAT_IN, session->protocol, &session->backend, here);
}

static __always_inline struct endpoint nat_end(const struct weft_addr *addr, __be16 port)
{
	struct endpoint end = { .addr = *addr, .port = port };

	return end;
}

/* The connection of which a head and its key tell. */
static __always_inline void session_of_head(const struct nat_key *key, const struct nat_entry *head, struct nat_session *session)
{
	session->client = nat_end(&key->source, key->source_port);
	session->vip = nat_end(&key->destination, key->destination_port);
	session->backend = nat_end(&head->addr, head->port);
	session->protocol = key->protocol;
	session->seen_port = head->client_port ? head->client_port : key->source_port;
}

/* The connection of which the entry for replies tells. */
static __always_inline void session_of_reply(const struct nat_key *key, const struct nat_entry *reply, struct nat_session *session)
{
	session->client = nat_end(&key->destination, reply->client_port ? reply->client_port : key->destination_port);
	session->vip = nat_end(&reply->addr, reply->port);
	session->backend = nat_end(&key->source, key->source_port);
	session->protocol = key->protocol;
	session->seen_port = key->destination_port;
}

static __always_inline struct nat_entry *find_nat(const struct nat_key *key)
{
	struct nat_entry *entry = bpf_map_lookup_elem(&nat, key);

	return entry ? entry : bpf_map_lookup_elem(&nat_pending, key);
}

/* Ages are seconds: the clock of the last tick will do. Written once a tick, as other processors read that line. */
static __always_inline void touch_nat(struct nat_entry *entry)
{
	__u64 now = bpf_ktime_get_coarse_ns();

	if (entry->last_ns != now)
		entry->last_ns = now;
}

static __always_inline bool is_nat_active(void)
{
	__u32 zero = 0;
	__u64 *activity = bpf_map_lookup_elem(&nat_activity, &zero);

	return activity && *(volatile __u64 *)activity & 1;
}

/* Entries come first: a sweep that has not seen them sees this. */
static __always_inline void note_activity(void)
{
	__u32 zero = 0;
	__u64 *activity = bpf_map_lookup_elem(&nat_activity, &zero);

	if (!activity)
		return;
	__sync_fetch_and_add(activity, 2);
	__sync_fetch_and_or(activity, 1);
}

static __always_inline struct nat_settings *nat_settings_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&nat_settings, &zero);
}

static __always_inline void forget_nat(const struct nat_key *key)
{
	bpf_map_delete_elem(&nat, key);
	bpf_map_delete_elem(&nat_pending, key);
}

/* The four bytes from `port` on as one word, for atomics; and a flag's place in it. */
#define NAT_WORD(entry) ((__u32 *)&(entry)->port)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NAT_FLAG(flag) ((__u32)(flag) << 24)
#else
#define NAT_FLAG(flag) ((__u32)(flag))
#endif
_Static_assert(offsetof(struct nat_entry, flags) == offsetof(struct nat_entry, port) + 3, "NAT_FLAG");
_Static_assert(offsetof(struct nat_entry, port) % 4 == 0, "NAT_WORD");

/* Gives back what an established connection has taken; once, whoever comes. */
static __always_inline void uncount(struct nat_entry *head)
{
	__u32 taken = NAT_FLAG(NAT_COUNTED | NAT_HELD);
	__u32 was = __sync_fetch_and_and(NAT_WORD(head), ~taken);
	struct backend_load *load = load_by_id(head->backend);

	if (was & NAT_FLAG(NAT_COUNTED) && load)
		__sync_fetch_and_add(&load->open, -1);
	if (was & NAT_FLAG(NAT_HELD))
		leave_service(head->service);
}

/* Takes all entries of a connection away. */
VERIFIED_ONCE int end_session(const struct nat_key *of)
{
	struct nat_session session = {};
	struct nat_entry *entry;
	struct endpoint here;
	struct nat_key key;

	if (!of)
		return 0;
	key = *of;
	entry = find_nat(&key);
	if (!entry)
		return 0;
	session_of_head(&key, entry, &session);
	uncount(entry);
	forget_nat(&key);
	reply_key(&session, &key);
	forget_nat(&key);
	masquerade_key(&session, &key);
	entry = find_nat(&key);
	if (!entry)
		return 0;
	here = nat_end(&entry->addr, entry->port);
	forget_nat(&key);
	if (!here.port)
		return 0;
	back_key(&session, &here, &key);
	forget_nat(&key);
	return 0;
}

/* Moves an entry to where floods do not reach; 0 unless there is no room. */
static __always_inline int settle_entry(const struct nat_key *key, const struct nat_entry *entry)
{
	int error = bpf_map_update_elem(&nat, key, entry, BPF_ANY);

	if (!error)
		bpf_map_delete_elem(&nat_pending, key);
	return error;
}

static __always_inline void count_head(struct nat_entry *head)
{
	struct backend_load *load = load_by_id(head->backend);
	__u32 service = head->service;
	struct service_state *state;

	if (load) {
		__sync_fetch_and_add(&load->open, 1);
		__sync_fetch_and_add(&load->total, 1);
		__sync_fetch_and_or(NAT_WORD(head), NAT_FLAG(NAT_COUNTED));
	}
	state = bpf_map_lookup_elem(&service_states, &service);
	if (state) {
		__sync_fetch_and_add(&state->open, 1);
		__sync_fetch_and_or(NAT_WORD(head), NAT_FLAG(NAT_HELD));
	}
}

/*
 * The client has heard the answer. The head goes last: until it is in `nat` nobody takes the others for those of an established
 * connection, and what found no room is left to `nat_pending`.
 */
VERIFIED_ONCE int establish(const struct nat_key *of)
{
	struct nat_entry *entry, copy;
	struct nat_session session = {};
	struct endpoint here;
	struct nat_key key;
	int error;

	if (!of)
		return 0;
	key = *of;
	entry = bpf_map_lookup_elem(&nat_pending, &key);
	if (!entry)
		return 0;
	session_of_head(&key, entry, &session);
	reply_key(&session, &key);
	entry = bpf_map_lookup_elem(&nat_pending, &key);
	if (entry) {
		copy = *entry;
		if (settle_entry(&key, &copy))
			goto full;
	}
	masquerade_key(&session, &key);
	entry = bpf_map_lookup_elem(&nat_pending, &key);
	if (entry) {
		copy = *entry;
		here = nat_end(&copy.addr, copy.port);
		if (settle_entry(&key, &copy))
			goto full;
		back_key(&session, &here, &key);
		entry = bpf_map_lookup_elem(&nat_pending, &key);
		if (entry) {
			copy = *entry;
			if (settle_entry(&key, &copy))
				goto full;
		}
	}
	head_key(&session, &key);
	entry = bpf_map_lookup_elem(&nat_pending, &key);
	if (!entry)
		return 0;
	copy = *entry;
	copy.state = NAT_ESTABLISHED;
	error = bpf_map_update_elem(&nat, &key, &copy, BPF_NOEXIST);
	if (error == -EEXIST)
		return 0;
	if (error)
		goto full;
	/* Counted once it is certain that this one has moved it. */
	entry = bpf_map_lookup_elem(&nat, &key);
	if (entry)
		count_head(entry);
	bpf_map_delete_elem(&nat_pending, &key);
	return 0;
full:
	count(COUNTER_NAT_FULL);
	return 0;
}

#endif
