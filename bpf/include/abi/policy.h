/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Who is who, and who may talk to whom.
 *
 * An address has an identity: a number that the agent of this node gives to everything it cannot tell apart by policy (same
 * namespace, service account, labels, named ports, and the same most specific CIDR of all that policies mention). A local workload
 * has one policy set for each direction. A decision takes two lookups: (set, identity of the peer) in `peer_rules`, else the set's
 * rules for everybody else, and a search in that range of `rules`.
 *
 * The agent writes a new set elsewhere, then replaces the workload's entry, then deletes the old set. A reader that held the old
 * entry notices it: the workload's entry has changed when it looks again after its decision, or the rules it found belong to
 * another set.
 */
#ifndef WEFT_ABI_POLICY_H
#define WEFT_ABI_POLICY_H

enum identity_number {
	IDENTITY_UNKNOWN = 0, /* not looked up */
	IDENTITY_WORLD = 1,   /* no workload's, no node's, and in no CIDR that a policy mentions */
	IDENTITY_REFUSED = 2, /* it, or somebody of whom it cannot be told, found no room in a map: every set refuses it */
	IDENTITY_FIRST = 16,  /* the agent numbers from here on */
};

enum identity_flags {
	IDENTITY_HOST = 1,        /* this node itself: always let in and out, as kubelet's probes must be */
	IDENTITY_REMOTE_NODE = 2, /* another node */
};

/* Value of `identities`, by exact address. */
struct identity {
	__u32 number;
	__u32
	    interface; /* index of the host side of the local pod that has this address; 0: not a local pod with its own namespace */
	__u32 flags;   /* enum identity_flags */
	__u32 pad;     /* zero */
};
_Static_assert(sizeof(struct identity) == 16, "ABI");

/*
 * Key of `cidr_identities`, a longest-prefix match; the value is the identity's number. The agent keeps ::/0 and 0.0.0.0/0 in it,
 * so that an address without any entry is one of tables that are not written yet: IDENTITY_REFUSED.
 */
struct cidr_key {
	__u32 prefix; /* bits of `addr` that count, 0 to 128: an IPv4 prefix is 96 longer than it is written */
	struct weft_addr addr;
};
_Static_assert(sizeof(struct cidr_key) == 20, "ABI");

/* A policy set: rules [base, base + count) of `rules` are for peers without an entry of their own in `peer_rules`. */
struct policy_set {
	__u32 id; /* unique over the life of the maps; 0: none, refuse */
	__u32 base;
	__u32 count;
};
_Static_assert(sizeof(struct policy_set) == 12, "ABI");

enum workload_flags {
	WORKLOAD_LAYER7 = 1, /* some rules of `ingress` may say VERDICT_PROXY */
};

/* Value of `local_workloads`, by interface index. No entry: nothing passes, REASON_NOT_READY. */
struct local_workload {
	struct policy_set egress;  /* judges what the workload opens */
	struct policy_set ingress; /* judges what is opened to it */
	__u32 flags;               /* enum workload_flags */
};
_Static_assert(sizeof(struct local_workload) == 28, "ABI");

struct peer_key {
	__u32 set;
	__u32 identity;
};
_Static_assert(sizeof(struct peer_key) == 8, "ABI");

struct rule_range {
	__u32 base;
	__u32 count;
};
_Static_assert(sizeof(struct rule_range) == 8, "ABI");

/*
 * A rule stands for all points from `first` up to the next rule's `first` in its range; the first rule of a range begins at 0, so
 * that each point has exactly one rule. A point is (protocol class << 16) | destination port, with port 0 for protocols without.
 */
enum protocol_class {
	CLASS_TCP = 0,
	CLASS_UDP = 1,
	CLASS_SCTP = 2,
	CLASS_ICMP = 3, /* ICMP and ICMPv6 */
	CLASS_OTHER = 4,
};

enum verdict {
	VERDICT_ALLOW = 1,
	VERDICT_DENY = 2,
	VERDICT_PROXY = 3, /* ingress: the node's Envoy decides, request by request. Refused to whoever comes past it */
};

#define MAX_RULES_OF_A_PEER 65536 /* 16 steps of a binary search, and one */

struct rule {
	__u32 first;
	__u32 set;    /* the set it belongs to: tells readers that came too late */
	__u32 id;     /* names the policy's rule that decided, for people; 0: no policy did */
	__u32 audit;  /* id of an audited policy's rule that would have refused; 0: none */
	__u8 verdict; /* enum verdict */
	__u8 reason;  /* enum reason */
	__u16 pad;    /* zero */
};
_Static_assert(sizeof(struct rule) == 20, "ABI");

/* The one element of `policy_settings`. */
struct policy_settings {
	__u32 epoch;    /* never 0; grows whenever a living connection may be judged otherwise than before */
	__u32 next_set; /* the agent's: set ids from here on are unused */
};
_Static_assert(sizeof(struct policy_settings) == 8, "ABI");

#endif
