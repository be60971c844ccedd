/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How the sockets of a pair that is on TCP leave the sockmap: see `accel_leaving`. */
#ifndef WEFT_LIB_LEAVE_H
#define WEFT_LIB_LEAVE_H

#include "pair.h"

#define SOL_SOCKET 1 /* as on all architectures of lib/reader.h */
#define SO_RCVLOWAT 18

/* A thread that was stopped while it put its message into the other's queue is done after so long. */
#define SETTLED_NS (1000ULL * 1000 * 1000)

static __always_inline __u32 this_thread(void)
{
	return (__u32)bpf_get_current_pid_tgid();
}

/*
 * A redirected message is in the other's queue when its send() returns, but by then its sender's lock was given up. So the thread that
 * sends again has nothing on its way; of others that is not known.
 */
static __always_inline void note_thread(struct accel_end *own)
{
	__u32 thread = this_thread();

	if (own->thread != thread)
		own->thread = own->thread ? ACCEL_THREADS : thread;
}

static __always_inline void note_settled(struct accel_end *own)
{
	if (own->left_ns && own->thread == this_thread())
		own->left_ns = 0;
}

/* Sends this direction to TCP from now on. */
static __always_inline __u32 to_tcp(struct accel_end *end)
{
	__u32 was = end->state;

	if (was == ACCEL_TCP)
		return was;
	end->left_ns = bpf_ktime_get_ns();
	was = __sync_lock_test_and_set(&end->state, ACCEL_TCP);
	if (was == ACCEL_PENDING)
		end->left_ns = 0;
	return was;
}

/* That there is something new in `accel_leaving`. */
static __always_inline void tell_agent(void)
{
	__u32 zero = 0;
	struct accel_settings *settings = bpf_map_lookup_elem(&accel_settings, &zero);

	if (settings)
		__sync_fetch_and_add(&settings->taken_out, 1);
}

static __always_inline void take_out(const struct flow_key *flow, const struct accel_end *socket, __u32 end)
{
	struct accel_key key = { .flow = *flow, .netns = socket->netns, .end = end };
	__u64 sock = socket->sock;

	if (!sock)
		return;
	if (bpf_map_update_elem(&accel_leaving, &sock, &key, BPF_ANY))
		count(COUNTER_ACCEL_FULL);
	else
		tell_agent();
}

/* Both directions go to TCP, both sockets out of the sockmap. Whoever sends on one socket does so one after the other, but for the moment in
 * which the message is put into the other's queue. */
static __always_inline void dissolve(struct accel_pair *pair, const struct accel_key *reader, enum counter why)
{
	struct accel_end *own = end_of_pair(pair, other(reader->end)), *peer = end_of_pair(pair, reader->end);

	if (to_tcp(own) == ACCEL_TCP)
		return;
	count(why);
	note_settled(own);
	to_tcp(peer);
	take_out(&reader->flow, own, other(reader->end));
	take_out(&reader->flow, peer, reader->end);
}

/*
 * Whether no thread is about to send or receive on it: each holds its psock meanwhile, and so does the sockmap. Who has seen that of a
 * direction that is on TCP knows that nothing of it is on its way.
 */
static __always_inline bool is_at_rest(const struct sock *sk)
{
	const struct sk_psock *psock = psock_of(sk);

	return psock && psock->refcnt.refs.counter == 1;
}

/* Whether nothing will be redirected to this socket any more. */
static __always_inline bool is_settled(const struct accel_key *key, const struct sock *sk)
{
	struct accel_key pair_key = pair_key_of(key);
	struct accel_pair *pair = bpf_map_lookup_elem(&accel_pairs, &pair_key);
	struct accel_end *own, *writer;

	/* The other end is closed. */
	if (!pair || end_of_pair(pair, key->end)->sock != (__u64)sk)
		return true;
	own = end_of_pair(pair, key->end);
	if (own->state == ACCEL_TCP && own->left_ns && is_at_rest(sk))
		own->left_ns = 0;
	writer = end_of_pair(pair, other(key->end));
	return writer->state == ACCEL_TCP && (!writer->left_ns || bpf_ktime_get_ns() - writer->left_ns > SETTLED_NS ||
	                                      is_at_rest(KERNEL_OBJECT(struct sock, writer->sock)));
}

/*
 * Takes a socket out that has read all that was redirected to it, and will be redirected no more; what it sends is TCP's from then on.
 * Setting SO_RCVLOWAT to what it is makes TCP look whether there is something to read, and tell epoll so (tcp_set_rcvlowat()).
 */
static __always_inline void leave_if_drained(struct sock_common *common)
{
	const struct sock *sk = KERNEL_OBJECT(struct sock, common);
	__u64 sock = (__u64)common;
	struct accel_key *found = bpf_map_lookup_elem(&accel_leaving, &sock), key;
	__u64 unread;
	int least;

	if (!found)
		return;
	key = *found;
	unread = unread_bytes(sk);
	if (unread != UNREAD_UNKNOWN && (unread || !is_settled(&key, sk)))
		return;
	bpf_map_delete_elem(&accel_leaving, &sock);
	/* Not in the sockmap: it found no room there. */
	if (unread == UNREAD_UNKNOWN)
		return;
	bpf_map_delete_elem(&accel_sockets, &key);
	least = sk->sk_rcvlowat;
	bpf_setsockopt(common, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least));
}

#endif
