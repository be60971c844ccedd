/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Lets BPF_PROG_TEST_RUN call what socket hooks do about limits and failures. */
#include "lib/limits.h"
#include "lib/outlier.h"

struct limit_args {
	__u32 service;
	__u32 has_end;
	__u32 reason; /* out: enum reason */
	__u32 held;   /* out */
};

SEC("syscall")
int weft_test_admit(struct limit_args *args)
{
	struct choice choice = { .service = args->service, .flags = SERVICE_LIMITED };

	args->reason = admit(&choice, args->has_end);
	args->held = choice.flags & SOCKET_HELD;
	return 0;
}

SEC("syscall")
int weft_test_leave(struct limit_args *args)
{
	leave_service(args->service);
	return 0;
}

struct outcome_args {
	__u32 service;
	__u32 backend;
	__u32 reason; /* enum reason: why it failed; REASON_NONE: it did not, and ended well; REASON_FIN: it was established */
	__u32 pad;
};

SEC("syscall")
int weft_test_outcome(struct outcome_args *args)
{
	if (args->reason == REASON_NONE)
		backend_served(args->backend);
	else if (args->reason == REASON_FIN)
		backend_answered(args->backend);
	else
		backend_failed(args->service, args->backend, args->reason);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
