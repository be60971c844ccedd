/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* A connect or datagram that goes nowhere: the application learns it at once, people learn why. */
#ifndef WEFT_LIB_REFUSE_H
#define WEFT_LIB_REFUSE_H

#include "../include/weft.h"
#include "address.h"
#include "counter.h"
#include "event.h"

static __noinline int tell_refused(const struct endpoint *vip, __u32 service, __u8 protocol, enum reason why)
{
	struct event event = { .service = service, .protocol = protocol, .type = EVENT_DENIED };

	event.vip = vip->addr;
	event.vip_port = vip->port;
	event.direction = DIRECTION_EGRESS;
	event.verdict = VERDICT_DENY;
	event.reason = why;
	emit(&event);
	return 0;
}

static __always_inline int refuse(enum counter why)
{
	count(why);
	bpf_set_retval(-ECONNREFUSED);
	return SOCKET_REFUSE;
}

#endif
