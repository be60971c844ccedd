/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How far away a backend is, for the choice by LB_LEAST_REQUEST. */
#ifndef WEFT_LIB_RTT_H
#define WEFT_LIB_RTT_H

#include "../include/weft.h"
#include "backend.h"

/* Four seconds: what is farther away is not chosen for its distance anyway, and products with it fit into 64 bits. */
#define LONGEST_RTT_US (1U << 22)
/* Differences below a millisecond are those of schedulers and interrupts, not of distance. */
#define RTT_STEP_US 1000

/* An eighth of each new measurement, as TCP itself smooths (RFC 6298). Of two at once one may be lost. */
static __always_inline void learn_rtt(__u32 backend, __u32 measured_us)
{
	struct backend_load *load = load_by_id(backend);
	__u32 known;

	if (!load || !measured_us)
		return;
	if (measured_us > LONGEST_RTT_US)
		measured_us = LONGEST_RTT_US;
	known = load->srtt_us;
	load->srtt_us = known ? known - known / 8 + measured_us / 8 : measured_us;
}

/*
 * What a new connection there has to wait for: a round trip for itself, and one for each that is open, by weight. Both backends
 * were taken by weight already, so idle ones of different weight are equal here. Where either of the two has not been measured,
 * the round trips count as alike: a new backend is neither flooded nor shunned.
 */
static __always_inline bool waits_less(const struct backend_load *a, __u32 weight_a, const struct backend_load *b, __u32 weight_b)
{
	__u64 wait_a = a->open + weight_a, wait_b = b->open + weight_b;
	__u32 rtt_a = a->srtt_us, rtt_b = b->srtt_us;

	if (rtt_a && rtt_b) {
		wait_a *= rtt_a / RTT_STEP_US + 1;
		wait_b *= rtt_b / RTT_STEP_US + 1;
	}
	return wait_a * weight_b <= wait_b * weight_a;
}

#endif
