/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Settings that the agent fixes before loading: the verifier folds them. */
#ifndef WEFT_CONFIG_H
#define WEFT_CONFIG_H

/* A flow of an unconnected UDP socket that is idle for longer chooses anew; kube-proxy's conntrack forgets a UDP stream after 120 s. */
__weak const volatile __u64 udp_peer_idle_ns = 120ULL * 1000 * 1000 * 1000;

/* Size of `backends` and `backend_loads`, which are always alike. */
#define DEFAULT_BACKENDS 524288
__weak const volatile __u32 backend_capacity = DEFAULT_BACKENDS;

/* The agent's own network namespace, as in struct closing_socket; 0: not known. */
__weak const volatile __u32 node_netns = 0;

/* The same as the cookie that sockets of it have; 0: not known. */
__weak const volatile __u64 node_cookie = 0;

/* Ticks of the kernel's clock in a second (CONFIG_HZ). */
__weak const volatile __u32 tick_hz = 250;

/* Bytes redirected and not read yet past which a direction goes back to TCP. */
__weak const volatile __u32 accel_bound = 256 * 1024;

/* Whether readers that block are sent to as well: see lib/reader.h for what may surprise them. */
__weak const volatile __u32 accel_blocking = 0;

/* Nobody wants to be told what happens to connections: no events are made, and none counts as lost. */
__weak const volatile __u32 events_off = 0;

#endif
