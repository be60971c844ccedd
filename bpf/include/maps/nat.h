/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Maps of traffic from outside the cluster. */
#ifndef WEFT_MAPS_NAT_H
#define WEFT_MAPS_NAT_H

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct nat_key);
	__type(value, struct nat_entry);
} nat_pending __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 524288);
	__type(key, struct nat_key);
	__type(value, struct nat_entry);
} nat __weak SEC(".maps");

/* The one element: bit 0 while there may be entries in either; the rest counts connections, so that a sweep notices new ones. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} nat_activity __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nat_settings);
} nat_settings __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct uplink);
} uplinks __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct source_range_key);
	__type(value, __u32);
} source_ranges __weak SEC(".maps");

#endif
