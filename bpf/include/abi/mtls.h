/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * mTLS between nodes. Plain TCP between a pod and one of another node goes through a tunnel of their Envoys where the destination requires
 * that; what Envoy itself opens goes through one wherever the destination takes tunnels. See docs/mtls.md.
 */
#ifndef WEFT_ABI_MTLS_H
#define WEFT_ABI_MTLS_H

/* Value of `mtls_modes`: what a pod's address takes from other nodes. No entry: plain text, as of those that have no mesh. */
enum mtls_mode {
	MTLS_PERMISSIVE = 1, /* plain text and tunnels */
	MTLS_STRICT = 2,     /* tunnels */
	MTLS_DISABLE = 3,    /* plain text */
	MTLS_MODE = 3,       /* mask of the above */
	MTLS_HERE = 4,       /* a pod of this node */
	MTLS_PORTS = 8,      /* only of port 0: some ports have entries of their own */
};

struct mtls_key {
	struct weft_addr addr;
	__be16 port; /* 0: all that have none of their own */
	__u16 pad;   /* zero */
};
_Static_assert(sizeof(struct mtls_key) == 20, "ABI");

enum mtls_flags {
	MTLS_OPENS = 1,    /* this node has an Envoy that opens tunnels, and somebody takes them */
	MTLS_REQUIRES = 2, /* a local pod does not take plain text from other nodes */
	MTLS_NO_ROOM = 4,  /* some local pods found no room in `mtls_modes`: those without an entry require mTLS */
};

/* The one element of `mtls_state`. 0: nobody has to look. */
struct mtls_state {
	__u32 flags; /* enum mtls_flags */
};
_Static_assert(sizeof(struct mtls_state) == 4, "ABI");

#endif
