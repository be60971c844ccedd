/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef WEFT_MAPS_PROXY_H
#define WEFT_MAPS_PROXY_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct proxy_state);
} proxy_state __weak SEC(".maps");

/*
 * Network namespaces of local pods that are out of the mesh, by cookie: their interfaces have no program that could hand anything over
 * to Envoy. Written by the agent; the value means nothing. Not by inode number, as the kernel gives that of a namespace that is gone to
 * the next one: a pod of the mesh would be taken for one that is out while no agent runs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u32);
} outsiders __weak SEC(".maps");

#endif
