/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Forgets connections from outside that have been silent for too long. */
#ifndef WEFT_LIB_NAT_SWEEP_H
#define WEFT_LIB_NAT_SWEEP_H

#include "age.h"
#include "nat.h"

struct bpf_map;

struct nat_sweeping {
	struct ct_settings settings;
	__u64 now;
	struct sweep *told;
};

static __always_inline __u32 nat_idle_s(const struct nat_key *key, const struct nat_entry *head, const struct ct_settings *settings)
{
	if (key->protocol == IPPROTO_UDP)
		return head->state == NAT_ESTABLISHED ? settings->udp_established_s : settings->udp_new_s;
	switch (head->state) {
	case NAT_NEW:
	case NAT_ANSWERED:
		return settings->tcp_new_s;
	case NAT_ESTABLISHED:
		return settings->tcp_established_s;
	case NAT_CLOSING:
		return settings->tcp_closing_s;
	default:
		return settings->tcp_closed_s;
	}
}

/* The longest that an entry may be silent whose connection is not known to live. */
static __always_inline __u32 orphan_s(const struct nat_key *key, const struct ct_settings *settings)
{
	return key->protocol == IPPROTO_UDP ? settings->udp_new_s : settings->tcp_new_s;
}

/* Nanoseconds until neither client nor backend has sent anything for too long. */
VERIFIED_ONCE __s64 session_time_left(const struct nat_key *of, const struct nat_entry *head, const struct ct_settings *settings,
                                      __u64 now)
{
	struct nat_session session = {};
	struct nat_entry *reply;
	struct nat_key key;
	__s64 left;
	__u32 idle;

	if (!of || !head || !settings)
		return 0;
	idle = nat_idle_s(of, head, settings);
	left = time_left(head->last_ns, idle, now);
	if (left >= 0)
		return left;
	key = *of;
	session_of_head(&key, head, &session);
	reply_key(&session, &key);
	reply = find_nat(&key);
	return reply ? time_left(reply->last_ns, idle, now) : left;
}

/* Whether an entry's head is gone; what goes with a head that is over goes with it. */
VERIFIED_ONCE int is_orphan(const struct nat_key *of, const struct nat_entry *entry)
{
	struct nat_session session = {};
	struct nat_entry copy, *found;
	struct nat_key key;

	if (!of || !entry)
		return false;
	key = *of;
	copy = *entry;
	if (key.stage == NAT_IN) {
		/* From the way back to that of replies. */
		key.stage = NAT_OUT;
		key.destination = copy.addr;
		key.destination_port = copy.port;
	} else if (copy.flags & NAT_MASQUERADE) {
		key.source = of->destination;
		key.source_port = of->destination_port;
		key.destination = of->source;
		key.destination_port = of->source_port;
	}
	found = find_nat(&key);
	if (!found || found->flags & NAT_MASQUERADE)
		return true;
	copy = *found;
	session_of_reply(&key, &copy, &session);
	head_key(&session, &key);
	return !find_nat(&key);
}

static long sweep_nat(struct bpf_map *map, const struct nat_key *of, struct nat_entry *entry, struct nat_sweeping *sweeping)
{
	struct nat_key key = *of;
	struct nat_entry copy = *entry;
	bool is_head = copy.flags & NAT_HEAD;
	__s64 left;

	sweeping->told->nat++;
	left = is_head ? session_time_left(&key, &copy, &sweeping->settings, sweeping->now)
	               : time_left(copy.last_ns, orphan_s(&key, &sweeping->settings), sweeping->now);
	if (left >= 0)
		sweeping->told->due_ns = lesser(sweeping->told->due_ns, left);
	else if (is_head)
		end_session(&key);
	else if (is_orphan(&key, &copy))
		forget_nat(&key);
	return 0;
}

/* Tells how many entries of `nat` there were, and when the first that stays is due. */
static __noinline int sweep_outside(const struct ct_settings *settings, struct sweep *told)
{
	struct nat_sweeping sweeping = { .now = bpf_ktime_get_ns(), .told = told };
	__u32 zero = 0;
	__u64 *activity = bpf_map_lookup_elem(&nat_activity, &zero), before;
	__u32 settled;

	if (!activity)
		return 0;
	before = *(volatile __u64 *)activity;
	if (!(before & 1))
		return 0;
	sweeping.settings = *settings;
	bpf_for_each_map_elem(&nat, sweep_nat, &sweeping, 0);
	settled = told->nat;
	bpf_for_each_map_elem(&nat_pending, sweep_nat, &sweeping, 0);
	if (!told->nat)
		__sync_val_compare_and_swap(activity, before, before & ~1ULL);
	told->nat = settled;
	return 0;
}

#endif
