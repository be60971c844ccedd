/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * All maps. Each source file includes this; the linker makes one of the weak copies. Sizes are defaults that the agent may change
 * before loading. Hash maps take memory as they fill (BPF_F_NO_PREALLOC), so a generous size costs only its buckets.
 */
#ifndef WEFT_MAPS_H
#define WEFT_MAPS_H

#include "abi.h"
#include "config.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct service_key);
	__type(value, struct service);
} services __weak SEC(".maps");

/* Arrays, not hashes: a choice among many services costs a cache miss for each, not the three or four of a hash bucket's chain. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1048576);
	__type(key, __u32);
	__type(value, struct slot);
} slots __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DEFAULT_BACKENDS);
	__type(key, __u32);
	__type(value, struct backend);
} backends __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DEFAULT_BACKENDS);
	__type(key, __u32);
	__type(value, struct backend_load);
} backend_loads __weak SEC(".maps");

/* Round robin's position, by service id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 131072);
	__type(key, __u32);
	__type(value, __u64);
} cursors __weak SEC(".maps");

/* A cache: what is evicted costs a client its backend, never a connection. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct affinity_key);
	__type(value, struct affinity);
} affinities __weak SEC(".maps");

/* Open TCP connections to services, by socket cookie modulo the size, a power of two: see lib/connection.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DEFAULT_CONNECTION_PLACES);
	__type(key, __u32);
	__type(value, struct socket_service);
} connection_places __weak SEC(".maps");

/* Those whose place there is taken by another one, by socket cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 131072);
	__type(key, __u64);
	__type(value, struct socket_service);
} connections __weak SEC(".maps");

/* The one element: how many are in `connections`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} displaced __weak SEC(".maps");

/* Connected UDP sockets. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket_service);
} sockets __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_peers);
} udp_peers __weak SEC(".maps");

/* Backends whose connections are being closed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, __u8);
} closing __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters __weak SEC(".maps");

/* The agent's alone; here so that it lives as long as the ids that it has given out. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct id_allocator);
} ids __weak SEC(".maps");

#include "maps/accel.h"
#include "maps/policy.h"
#include "maps/limits.h"
#include "maps/mtls.h"
#include "maps/proxy.h"
#include "maps/nat.h"
#include "maps/route.h"

#endif
