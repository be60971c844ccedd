/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Types that the agent needs and that no map mentions: a variable of each puts them into BTF, and so into the skeleton. */
#ifndef WEFT_EXPORT_H
#define WEFT_EXPORT_H

#include "abi.h"

const volatile struct closing_socket weft_export_closing_socket = {};
const volatile enum counter weft_export_counter = 0;
const volatile enum lb_policy weft_export_lb_policy = 0;
const volatile enum backend_flags weft_export_backend_flags = 0;

#endif
