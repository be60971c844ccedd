/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Maps of same-node acceleration. All begin with `accel_`: they are not made where there is none. */
#ifndef WEFT_MAPS_ACCEL_H
#define WEFT_MAPS_ACCEL_H

#define ACCEL_PAIRS 65536

struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 2 * ACCEL_PAIRS);
	__type(key, struct accel_key);
	__type(value, __u64);
} accel_sockets __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, ACCEL_PAIRS);
	__type(key, struct accel_key);
	__type(value, struct accel_pair);
} accel_pairs __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct accel_pod);
} accel_pods __weak SEC(".maps");

/* Inode numbers of the network namespaces of pods whose connections within themselves are accelerated, each with 1. Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} accel_namespaces __weak SEC(".maps");

/* A cache: of a listener that was pushed out the next connections stay on TCP. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct accel_listener);
	__type(value, __u64);
} accel_listeners __weak SEC(".maps");

/*
 * Sockets of pairs that are on TCP, by kernel address, a hint as in struct accel_end: they are taken out of `accel_sockets` as soon as
 * they have read what was redirected to them. Until then their applications may be misled, as for a socket in a sockmap the kernel
 * counts only redirected bytes: recv() ends where these end, though TCP may have brought more, and FIONREAD tells of these alone. Who
 * trusts epoll(7) that nothing is left after a short read, or in FIONREAD, as nginx does, waits for an edge that has been. So it
 * gets one as its socket leaves: see lib/leave.h. And TCP sends faster without a map.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * ACCEL_PAIRS);
	__type(key, __u64);
	__type(value, struct accel_key);
} accel_leaving __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct accel_settings);
} accel_settings __weak SEC(".maps");

#endif
