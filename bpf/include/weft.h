/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What every program needs. */
#ifndef WEFT_H
#define WEFT_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/types.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"
#include "config.h"
#include "maps.h"

/*
 * A function that the verifier looks at once, by itself, and not again at each call. It knows nothing of the pointers that it is
 * given but the size of what they point to, not even that they are not NULL.
 */
#define VERIFIED_ONCE __weak __noinline

/* Verdicts of cgroup socket hooks. */
#define SOCKET_ALLOW 1
#define SOCKET_REFUSE 0

#endif
