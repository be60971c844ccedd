/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Settings that the agent fixes before loading: the verifier folds them. */
#ifndef WEFT_CONFIG_H
#define WEFT_CONFIG_H

/* A flow of an unconnected UDP socket that is idle for longer chooses anew; kube-proxy's conntrack forgets a UDP stream after 120 s. */
__weak const volatile __u64 udp_peer_idle_ns = 120ULL * 1000 * 1000 * 1000;

/* Size of `backends` and `backend_loads`, which are always alike. */
#define DEFAULT_BACKENDS 524288
__weak const volatile __u32 backend_capacity = DEFAULT_BACKENDS;

#endif
