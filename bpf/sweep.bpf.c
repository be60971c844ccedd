/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* One pass over all tracked flows, run by the agent, never attached. */
#include "lib/sweep.h"

SEC("raw_tp")
int weft_sweep(void *ctx)
{
	sweep_all();
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
