/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Looks after the health of backends: takes back those whose time is over though nobody chose them, and forgets what is over. */
#include "include/weft.h"
#include "include/kernel.h"
#include "lib/health.h"

#define MS_NS 1000000ULL

/* Still a backend of a service that ejects. */
static __always_inline bool is_concerned(const struct service_settings *settings, __u32 id)
{
	return settings && settings->consecutive_failures && backend_by_id(id);
}

static __always_inline bool is_forgiven(const struct backend_health *health, const struct service_settings *settings, __u64 now)
{
	__u64 length = (__u64)settings->base_ejection_ms * MS_NS * health->ejections;

	return !health->failures && !health->resets && now > health->quiet_since_ns + length;
}

static __always_inline void tend(struct backend_health *health, __u32 id)
{
	__u64 until = *(volatile __u64 *)&health->ejected_until_ns, now = bpf_ktime_get_ns();
	__u32 service = health->service;
	struct service_settings *settings = bpf_map_lookup_elem(&service_settings, &service);
	bool concerned = is_concerned(settings, id);

	if (until && (!concerned || now >= until) && take_back(health, until) && concerned)
		tell_health(service, id, EVENT_RETURNED, REASON_NONE);
	if (concerned && !is_forgiven(health, settings, now))
		return;
	if (!__sync_val_compare_and_swap(&health->ejected_until_ns, 0, HEALTH_GONE))
		bpf_map_delete_elem(&backend_health, &id);
}

SEC("iter/bpf_map_elem")
int weft_tend(struct bpf_iter__bpf_map_elem *ctx)
{
	struct backend_health *health;
	__u32 *key = ctx->key, id;

	if (!key)
		return 0;
	id = *key;
	health = bpf_map_lookup_elem(&backend_health, &id);
	if (health)
		tend(health, id);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
