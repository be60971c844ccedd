/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Open connections per backend, and per service with limits: counted once per socket, whoever ends first. */
#ifndef WEFT_LIB_LOAD_H
#define WEFT_LIB_LOAD_H

#include "../include/weft.h"
#include "backend.h"

static __always_inline void load_add(struct socket_service *socket)
{
	struct backend_load *load = load_by_id(socket->backend);

	if (!load || (__sync_fetch_and_or(&socket->flags, SOCKET_COUNTED) & SOCKET_COUNTED))
		return;
	__sync_fetch_and_add(&load->open, 1);
	__sync_fetch_and_add(&load->total, 1);
}

static __always_inline void leave_service(__u32 service)
{
	struct service_state *state = bpf_map_lookup_elem(&service_states, &service);

	if (state)
		__sync_fetch_and_add(&state->open, -1);
}

static __always_inline void load_remove(struct socket_service *socket)
{
	__u32 was = __sync_fetch_and_and(&socket->flags, ~(SOCKET_COUNTED | SOCKET_HELD));
	struct backend_load *load;

	if (was & SOCKET_HELD)
		leave_service(socket->service);
	if (!(was & SOCKET_COUNTED))
		return;
	load = load_by_id(socket->backend);
	if (load)
		__sync_fetch_and_add(&load->open, -1);
}

#endif
