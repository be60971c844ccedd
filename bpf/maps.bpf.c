/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The maps alone: what the agent makes before programs are loaded over them, without a look at any program. */
#include "include/weft.h"
