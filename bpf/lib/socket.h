/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The ends of a socket that an iterator shows. */
#ifndef WEFT_LIB_SOCKET_H
#define WEFT_LIB_SOCKET_H

#include "address.h"
#include "../include/kernel.h"

#define AF_INET6 10

/* Read as memory, not as fields: the verifier wants each load to have one kind of pointer, and the compiler merges the two families'. */
static __always_inline struct weft_addr copy_address(bool v6, const struct in6_addr *long_one, const __be32 *short_one)
{
	struct weft_addr addr = v4_mapped(0);

	if (v6)
		bpf_probe_read_kernel(&addr, sizeof(addr), long_one);
	else
		bpf_probe_read_kernel(&addr.word[3], sizeof(addr.word[3]), short_one);
	return addr;
}

static __always_inline struct weft_addr local_address(const struct sock_common *sk)
{
	return copy_address(sk->skc_family == AF_INET6, &sk->skc_v6_rcv_saddr, &sk->skc_rcv_saddr);
}

static __always_inline struct weft_addr remote_address(const struct sock_common *sk)
{
	return copy_address(sk->skc_family == AF_INET6, &sk->skc_v6_daddr, &sk->skc_daddr);
}

#endif
