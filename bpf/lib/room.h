/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Room in a reader's queue of redirected messages. No program can put a writer to sleep until there is some. But a reader that is
 * busy reading makes room within microseconds, so its writer looks for that as long, as kernel locks do with an owner that runs
 * (https://docs.kernel.org/locking/mutex-design.html, "optimistic spinning"): streams stay accelerated. Any other reader, and one that
 * keeps its writer waiting for more than half of the time, gets the rest through TCP, where a writer sleeps.
 */
#ifndef WEFT_LIB_ROOM_H
#define WEFT_LIB_ROOM_H

#include "leave.h"

#define MICROSECONDS 1000ULL

/* Without any progress: of a reader that is in recv(), where it may be interrupted; and of one that is not. */
#define READING_NS (500 * MICROSECONDS)
#define AWAY_NS (50 * MICROSECONDS)
/* For one message. */
#define LONGEST_WAIT_NS (1000 * MICROSECONDS)
#define MOST_LOOKS 65536
#define LOOKS_PER_CLOCK 16

/* Of each period, half may be spent waiting. */
#define PERIOD_NS (20 * 1000 * MICROSECONDS)

struct room {
	__u64 reader;   /* kernel address of its struct sock */
	__u64 unread;   /* when it was looked at last */
	__u64 began_ns; /* CLOCK_MONOTONIC */
	__u64 moved_ns; /* when it was last seen to have read something */
	__u64 size;     /* what room is wanted for, bytes */
};

static __always_inline bool fits(__u64 unread, __u32 size, __u32 bound)
{
	return unread <= bound && size <= bound - unread;
}

/* Past this much writers wait for their readers. */
static __always_inline bool is_little(__u64 unread, __u32 size)
{
	return fits(unread, size, config.accel_bound / 4);
}

/* The same without what the reader's recv() has copied so far: the kernel counts a message as unread until that ends. */
static __always_inline __u64 uncopied_bytes(const struct sock *sk)
{
	__u64 unread = unread_bytes(sk);
	__u32 held = sk->sk_backlog.rmem_alloc.counter;

	/* Zero on kernels that do not count redirected bytes there. */
	return held && held < unread ? held : unread;
}

/* Callback of bpf_loop(): 1 ends it. */
static long look_for_room(__u32 index, struct room *room)
{
	const struct sock *reader = KERNEL_OBJECT(struct sock, room->reader);
	__u64 unread = uncopied_bytes(reader), now, patience;
	bool has_read = unread < room->unread;

	room->unread = unread;
	if (is_little(unread, room->size))
		return 1;
	if (!has_read && index % LOOKS_PER_CLOCK)
		return 0;
	now = bpf_ktime_get_ns();
	if (has_read)
		room->moved_ns = now;
	patience = is_at_rest(reader) ? AWAY_NS : READING_NS;
	return now - room->moved_ns > patience || now - room->began_ns > LONGEST_WAIT_NS;
}

/* Whether this writer may wait now. */
static __always_inline bool may_wait(struct accel_end *own, __u64 now)
{
	if (now - own->period_ns > PERIOD_NS) {
		own->period_ns = now;
		own->waited_ns = 0;
	}
	return own->waited_ns <= PERIOD_NS / 2;
}

/* Whether this much fits into the reader's queue, perhaps after a moment. */
static __always_inline bool has_room(struct accel_end *own, __u64 reader, __u64 unread, __u32 size)
{
	struct room room = { .reader = reader, .unread = unread, .size = size };

	if (is_little(unread, size))
		return true;
	room.began_ns = room.moved_ns = bpf_ktime_get_ns();
	if (unread != UNREAD_UNKNOWN && is_little(0, size) && may_wait(own, room.began_ns)) {
		bpf_loop(MOST_LOOKS, look_for_room, &room, 0);
		own->waited_ns += bpf_ktime_get_ns() - room.began_ns;
	}
	return fits(room.unread, size, config.accel_bound);
}

#endif
