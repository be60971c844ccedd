/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef WEFT_LIB_COUNTER_H
#define WEFT_LIB_COUNTER_H

#include "../include/weft.h"

static __always_inline void count_more(enum counter which, __u64 more)
{
	__u32 key = which;
	__u64 *value = bpf_map_lookup_elem(&counters, &key);

	/* Per CPU, and programs do not migrate: no atomic needed but for nesting, which a statistic survives. */
	if (value)
		*value += more;
}

static __always_inline void count(enum counter which)
{
	count_more(which, 1);
}

#endif
