/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef WEFT_MAPS_PROXY_H
#define WEFT_MAPS_PROXY_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct proxy_state);
} proxy_state __weak SEC(".maps");

#endif
