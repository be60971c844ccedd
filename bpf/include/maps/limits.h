/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Maps of timeouts, limits and outlier ejection. */
#ifndef WEFT_MAPS_LIMITS_H
#define WEFT_MAPS_LIMITS_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct service_settings);
} service_settings __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct service_state);
} service_states __weak SEC(".maps");

/* Backends that failed lately, not all: one that finds no room is not ejected. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct backend_health);
} backend_health __weak SEC(".maps");

#endif
