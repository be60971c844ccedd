/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef WEFT_MAPS_ROUTE_H
#define WEFT_MAPS_ROUTE_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct pod_link);
} pod_links __weak SEC(".maps");

#define ROUTE_PLACES 256

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROUTE_PLACES);
	__type(key, __u32);
	__type(value, struct route_place);
} route_places __weak SEC(".maps");

/* The one element: weft_translate. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} translator __weak SEC(".maps");

#endif
