/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Lets BPF_PROG_TEST_RUN call choose(), which in production only socket hooks do. */
#include "lib/choose.h"

/* In: key and client. Out: the rest. */
struct choose_args {
	struct service_key key;
	__u32 result; /* enum choice_result */
	__u64 client;
	struct choice choice;
};

SEC("syscall")
int weft_test_choose(struct choose_args *args)
{
	struct service_key key = args->key;
	struct choice choice = {};

	args->result = choose(&key, args->client, &choice);
	args->choice = choice;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
