/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Timeouts, limits and outlier ejection: only services with a TrafficPolicy that asks for them have entries here. */
#ifndef WEFT_ABI_LIMITS_H
#define WEFT_ABI_LIMITS_H

/* Value of `service_settings`, by service id; written by the agent. Zero: not set. */
struct service_settings {
	__u32 connect_ms;
	__u32 idle_s;
	__u32 lifetime_s;
	__u32 max_connections;        /* open ones from this node */
	__u32 connections_per_second; /* new ones from this node; the bucket holds one second's worth */
	__u32 consecutive_failures;   /* failed connects in a row until a backend is ejected */
	__u32 base_ejection_ms;       /* of the first ejection; the n-th in a row lasts n times as long */
	__u32 max_ejected_percent;    /* of the service's backends; at least one may always be ejected */
	__u32 backends;               /* how many it has, for the percentage */
	__u32 pad;                    /* zero */
};
_Static_assert(sizeof(struct service_settings) == 40, "ABI");

/*
 * Value of `service_states`, by service id; made by the agent, then written by the kernel. It stays as long as its service, with
 * or without settings: sockets that stand in `open` leave it whenever they end.
 */
struct service_state {
	__u64 open;         /* connections now, of those that began under SERVICE_LIMITED */
	__u64 full_ns;      /* when the bucket of connections_per_second is full again, if nobody takes from it */
	__u64 limited;      /* refused by max_connections */
	__u64 rate_limited; /* refused by connections_per_second */
	__u64 timed_out;    /* connects that took too long */
	__u64 ejections;    /* ever */
	__u32 ejected;      /* backends now */
	__u32 pad;          /* zero */
};
_Static_assert(sizeof(struct service_state) == 56, "ABI");

/* Value of `backend_health`, by backend id: made by the kernel with the first failure, deleted by weft_tend. */
struct backend_health {
	__u64 ejected_until_ns; /* 0: not ejected */
	__u64 quiet_since_ns;   /* last failure, or end of the last ejection */
	__u32 service;
	__u32 failures;  /* connects that failed, since one did not */
	__u32 resets;    /* connections reset before their first byte came, since one was not */
	__u32 ejections; /* in a row: falls by one with each base time without a failure */
};
_Static_assert(sizeof(struct backend_health) == 32, "ABI");

#endif
