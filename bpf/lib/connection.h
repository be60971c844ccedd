/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What is remembered of an open TCP connection to a service, by its socket's cookie.
 *
 * The kernel gives out cookies one after the other, so in an array at the cookie modulo its size connections that begin one after the other
 * are neighbours: in the processor's caches, and taken and given back without an allocation. An old connection may still have the place of
 * a new one, which then goes to a hash.
 *
 * All that is done to one connection is done under its socket's lock, or when nobody else has the socket. The iterator that looks for
 * sockets to close reads at any time; it takes only what has a network namespace, which is written last and taken back first.
 */
#ifndef WEFT_LIB_CONNECTION_H
#define WEFT_LIB_CONNECTION_H

#include "../include/weft.h"

static __always_inline struct socket_service *connection_place(__u64 cookie)
{
	__u32 place = cookie & config.connection_mask;

	return bpf_map_lookup_elem(&connection_places, &place);
}

static __always_inline __u64 *displaced_connections(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&displaced, &zero);
}

/* NULL: the socket is connected to no service, or found no room. */
static __always_inline struct socket_service *connection_of(__u64 cookie)
{
	struct socket_service *place = connection_place(cookie);
	__u64 *others;

	if (place && place->cookie == cookie)
		return place;
	others = displaced_connections();
	return others && *others ? bpf_map_lookup_elem(&connections, &cookie) : NULL;
}

static __always_inline int displace_connection(const struct socket_service *connection)
{
	__u64 cookie = connection->cookie, *others = displaced_connections();
	int error;

	/* Before the entry: who finds a zero need not look. */
	if (others)
		__sync_fetch_and_add(others, 1);
	error = bpf_map_update_elem(&connections, &cookie, connection, BPF_NOEXIST);
	if (error && others)
		__sync_fetch_and_add(others, -1);
	return error;
}

/* 0, or why there is no room. The socket has no other entry. */
static __always_inline int add_connection(const struct socket_service *connection)
{
	struct socket_service *place = connection_place(connection->cookie);

	if (!place || place->cookie || __sync_val_compare_and_swap(&place->cookie, 0, connection->cookie))
		return displace_connection(connection);
	__builtin_memcpy(&place->vip, &connection->vip, sizeof(*place) - offsetof(struct socket_service, vip));
	return 0;
}

static __always_inline void remove_connection(struct socket_service *connection)
{
	__u64 cookie = connection->cookie, *others;

	if (connection == connection_place(cookie)) {
		connection->netns = 0;
		__sync_val_compare_and_swap(&connection->cookie, cookie, 0);
		return;
	}
	others = displaced_connections();
	if (!bpf_map_delete_elem(&connections, &cookie) && others)
		__sync_fetch_and_add(others, -1);
}

#endif
