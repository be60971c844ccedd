/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Settings that the agent fixes before loading: the verifier folds them. A section of their own, so that the agent writes them as
 * one struct. */
#ifndef WEFT_CONFIG_H
#define WEFT_CONFIG_H

/* Size of `connection_places`: so small that it stays in the processor's caches. */
#define DEFAULT_CONNECTION_PLACES 16384

/* Size of `backends` and `backend_loads`, which are always alike. */
#define DEFAULT_BACKENDS 524288

/* A flow of an unconnected UDP socket that is idle for longer chooses anew; kube-proxy's conntrack forgets a UDP stream after 120 s. */
#define UDP_PEER_IDLE_NS (120ULL * 1000 * 1000 * 1000)

struct config {
	/* The cookie of the agent's network namespace, as sockets of it have; 0: not known. */
	__u64 node_cookie;
	/* The same namespace, as in struct closing_socket; 0: not known. */
	__u32 node_netns;
	/* Entries of `backends`. */
	__u32 backend_capacity;
	/* Entries of `connection_places` less one. */
	__u32 connection_mask;
	/* Ticks of the kernel's clock in a second (CONFIG_HZ). */
	__u32 tick_hz;
	/* Bytes redirected and not read yet past which a direction goes back to TCP. */
	__u32 accel_bound;
	/* Whether readers that block are sent to as well: see lib/reader.h for what may surprise them. */
	__u32 accel_blocking;
	/* Nobody wants to be told what happens to connections: no events are made, and none counts as lost. */
	__u32 events_off;
	/* For bpf_fib_lookup(): BPF_FIB_LOOKUP_SKIP_NEIGH where the kernel knows it. */
	__u32 fib_flags;
};
_Static_assert(sizeof(struct config) == 40, "config has holes");

__weak const volatile struct config config SEC(".rodata.config") = {
	.backend_capacity = DEFAULT_BACKENDS,
	.connection_mask = DEFAULT_CONNECTION_PLACES - 1,
	.tick_hz = 250,
	.accel_bound = 1024 * 1024,
};

#endif
