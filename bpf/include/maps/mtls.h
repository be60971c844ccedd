/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef WEFT_MAPS_MTLS_H
#define WEFT_MAPS_MTLS_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct mtls_key);
	__type(value, __u32);
} mtls_modes __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mtls_state);
} mtls_state __weak SEC(".maps");

#endif
