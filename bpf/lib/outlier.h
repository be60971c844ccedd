/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Passive outlier ejection: a backend whose connections fail several times in a row is passed over for a while. */
#ifndef WEFT_LIB_OUTLIER_H
#define WEFT_LIB_OUTLIER_H

#include "../include/weft.h"
#include "health.h"

#define MS_NS 1000000ULL
/* No ejection lasts longer, unless the first one does (as Envoy's max_ejection_time). */
#define LONGEST_EJECTION_MS 300000ULL

static __always_inline struct backend_health *health_of(__u32 service, __u32 id, __u64 now)
{
	struct backend_health *health = bpf_map_lookup_elem(&backend_health, &id);
	struct backend_health fresh = { .quiet_since_ns = now, .service = service };

	if (health)
		return health;
	bpf_map_update_elem(&backend_health, &id, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&backend_health, &id);
}

/* Each base time without a failure makes the next ejection one base time shorter. */
static __always_inline void forgive(struct backend_health *health, const struct service_settings *settings, __u64 now)
{
	__u64 quiet = now > health->quiet_since_ns ? now - health->quiet_since_ns : 0;
	__u64 steps = settings->base_ejection_ms ? quiet / (settings->base_ejection_ms * MS_NS) : 0;

	health->ejections = steps < health->ejections ? health->ejections - steps : 0;
	health->quiet_since_ns = now;
}

static __always_inline __u64 ejection_ms(const struct backend_health *health, const struct service_settings *settings)
{
	__u64 base = settings->base_ejection_ms, length = base * (health->ejections + 1);
	__u64 longest = base > LONGEST_EJECTION_MS ? base : LONGEST_EJECTION_MS;

	return length < longest ? length : longest;
}

static __always_inline bool eject(struct backend_health *health, const struct service_settings *settings, __u64 now)
{
	__u32 service = health->service;
	struct service_state *state = bpf_map_lookup_elem(&service_states, &service);
	__u32 most = (__u64)settings->backends * settings->max_ejected_percent / 100;
	__u64 until = now + ejection_ms(health, settings) * MS_NS;

	if (!state)
		return false;
	if (__sync_fetch_and_add(&state->ejected, 1) >= (most ? most : 1))
		goto stays;
	if (__sync_val_compare_and_swap(&health->ejected_until_ns, 0, until))
		goto stays;
	health->ejections++;
	health->quiet_since_ns = until;
	health->failures = 0;
	health->resets = 0;
	__sync_fetch_and_add(&state->ejections, 1);
	return true;
stays:
	__sync_fetch_and_add(&state->ejected, -1);
	return false;
}

/* A connect failed, or a connection was reset (REASON_RST) before its first byte came. */
static __noinline int backend_failed(__u32 service, __u32 id, enum reason why)
{
	struct service_settings *settings = bpf_map_lookup_elem(&service_settings, &service);
	__u64 now = bpf_ktime_get_ns();
	struct backend_health *health;

	if (!settings || !settings->consecutive_failures)
		return 0;
	health = health_of(service, id, now);
	/* Connections that were on their way when it was ejected tell nothing new. */
	if (!health || health->ejected_until_ns)
		return 0;
	forgive(health, settings, now);
	__sync_fetch_and_add(why == REASON_RST ? &health->resets : &health->failures, 1);
	if (health->failures + health->resets >= settings->consecutive_failures && eject(health, settings, now))
		tell_health(service, id, EVENT_EJECTED, why);
	return 0;
}

/* A connect succeeded: a reset may still follow. */
static __always_inline void backend_answered(__u32 id)
{
	struct backend_health *health = bpf_map_lookup_elem(&backend_health, &id);

	if (health && health->failures)
		health->failures = 0;
}

/* A connection ended well. */
static __always_inline void backend_served(__u32 id)
{
	struct backend_health *health = bpf_map_lookup_elem(&backend_health, &id);

	if (health && (health->failures | health->resets)) {
		health->failures = 0;
		health->resets = 0;
	}
}

#endif
