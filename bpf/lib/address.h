/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef WEFT_LIB_ADDRESS_H
#define WEFT_LIB_ADDRESS_H

#include "../include/weft.h"

/* A transport address as the tables hold it. */
struct endpoint {
	struct weft_addr addr;
	__be16 port;
	__u16 pad; /* zero: functions that are verified by themselves may be given no byte that was never written */
};

static __always_inline struct weft_addr v4_mapped(__be32 ip)
{
	struct weft_addr addr = { { 0, 0, bpf_htonl(0xffff), ip } };

	return addr;
}

static __always_inline bool is_v4_mapped(const struct weft_addr *addr)
{
	return !addr->word[0] && !addr->word[1] && addr->word[2] == bpf_htonl(0xffff);
}

static __always_inline bool addr_equal(const struct weft_addr *a, const struct weft_addr *b)
{
	/* IPv4 differs in the last word only: compare it first. */
	return a->word[3] == b->word[3] && a->word[2] == b->word[2] && a->word[1] == b->word[1] && a->word[0] == b->word[0];
}

/* The address that the application gave or will be shown, read from and written to a socket hook's context. */

static __always_inline struct endpoint user_endpoint4(const struct bpf_sock_addr *ctx)
{
	struct endpoint e = { .addr = v4_mapped(ctx->user_ip4), .port = (__be16)ctx->user_port };

	return e;
}

static __always_inline void set_user_endpoint4(struct bpf_sock_addr *ctx, const struct endpoint *e)
{
	ctx->user_ip4 = e->addr.word[3];
	ctx->user_port = e->port;
}

static __always_inline struct endpoint user_endpoint6(const struct bpf_sock_addr *ctx)
{
	struct endpoint e = { .port = (__be16)ctx->user_port };

	/* Field by field: the context has no address that could be copied from. */
	e.addr.word[0] = ctx->user_ip6[0];
	e.addr.word[1] = ctx->user_ip6[1];
	e.addr.word[2] = ctx->user_ip6[2];
	e.addr.word[3] = ctx->user_ip6[3];
	return e;
}

static __always_inline void set_user_endpoint6(struct bpf_sock_addr *ctx, const struct endpoint *e)
{
	ctx->user_ip6[0] = e->addr.word[0];
	ctx->user_ip6[1] = e->addr.word[1];
	ctx->user_ip6[2] = e->addr.word[2];
	ctx->user_ip6[3] = e->addr.word[3];
	ctx->user_port = e->port;
}

#endif
