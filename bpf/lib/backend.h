/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Backends and their loads by id; NULL when the place has been given to another id, or to none. */
#ifndef WEFT_LIB_BACKEND_H
#define WEFT_LIB_BACKEND_H

#include "../include/weft.h"

static __always_inline struct backend *backend_by_id(__u32 id)
{
	__u32 place = id % config.backend_capacity;
	struct backend *backend = bpf_map_lookup_elem(&backends, &place);

	return backend && backend->id == id ? backend : NULL;
}

static __always_inline struct backend_load *load_by_id(__u32 id)
{
	__u32 place = id % config.backend_capacity;
	struct backend_load *load = bpf_map_lookup_elem(&backend_loads, &place);

	return load && load->id == id ? load : NULL;
}

/*
 * What a connection needs lies in several large tables, each too far away for the processor's caches once there are thousands of
 * services. Most of the time goes into waiting for them, so they are asked for early and together, and nobody waits for an answer.
 */
static __always_inline void touch_backend(__u32 id)
{
	__u32 place = id % config.backend_capacity;
	struct backend *backend = bpf_map_lookup_elem(&backends, &place);

	if (backend)
		*(volatile __u32 *)&backend->id;
}

/* The SYN will count it up in a moment. */
static __always_inline void touch_load(__u32 id)
{
	__u32 place = id % config.backend_capacity;
	struct backend_load *load = bpf_map_lookup_elem(&backend_loads, &place);

	if (load)
		*(volatile __u32 *)&load->id;
}

/* Before it is known which one it will be: backends that came together share their pages, and to find a page is half of the wait. */
static __always_inline void touch_backends(const struct service *service)
{
	touch_backend(service->near);
	touch_load(service->near);
}

#endif
