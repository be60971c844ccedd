/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Backends and their loads by id; NULL when the place has been given to another id, or to none. */
#ifndef WEFT_LIB_BACKEND_H
#define WEFT_LIB_BACKEND_H

#include "../include/weft.h"

static __always_inline struct backend *backend_by_id(__u32 id)
{
	__u32 place = id % backend_capacity;
	struct backend *backend = bpf_map_lookup_elem(&backends, &place);

	return backend && backend->id == id ? backend : NULL;
}

static __always_inline struct backend_load *load_by_id(__u32 id)
{
	__u32 place = id % backend_capacity;
	struct backend_load *load = bpf_map_lookup_elem(&backend_loads, &place);

	return load && load->id == id ? load : NULL;
}

#endif
