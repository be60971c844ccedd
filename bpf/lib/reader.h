/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What can be seen of the other end's socket, from its address alone. It may be closed meanwhile, and its memory be another's: what is
 * read here decides only between acceleration and TCP, and the kernel finds the socket to redirect to by its key.
 *
 * Redirected bytes are in a queue that recv(), read() and poll() know, but not all the rest of the kernel. A reader that may block gets
 * no acceleration, as of recv() on such a socket the kernel breaks three promises (tcp_bpf_recvmsg(), seen up to 6.18): MSG_WAITALL ends
 * early, a signal ends it with EAGAIN instead of EINTR or a restart, and so does an RST, or any other wake-up, instead of its own error.
 */
#ifndef WEFT_LIB_READER_H
#define WEFT_LIB_READER_H

#include "../include/weft.h"
#include "../include/kernel.h"

#define O_NONBLOCK 04000 /* all architectures that Linux has BPF compilers for, but alpha, mips, parisc and sparc */

/* enum of include/net/tcp_states.h */
#define ACCEL_LISTEN 10

/* Flags in `sk_user_data` (include/net/sock.h): the kernel's addresses are multiples of eight. */
#define USER_DATA_FLAGS 7UL
#define USER_DATA_PSOCK 4UL

/*
 * What is at an address, as the kernel's own type. Read as it is: where nothing is mapped any more, that is zeros (bpf_rdonly_cast(),
 * https://docs.kernel.org/bpf/kfuncs.html, Linux 6.2).
 */
#define KERNEL_OBJECT(type, address) ((const type *)bpf_core_cast((const void *)(address), type))

static __always_inline bool is_nonblocking(const struct sock *sk)
{
	struct file *file = sk->sk_socket->file;

	return file && file->f_flags & O_NONBLOCK;
}

/* Whether its owner polls. Of one that nobody has accepted yet that cannot be told: its listener was asked. */
static __always_inline bool reads_as_it_comes(const struct sock *sk)
{
	/* An application that asks for many bytes at once would be woken by fewer. */
	if (sk->sk_rcvlowat > 1)
		return false;
	return config.accel_blocking || !sk->sk_socket || is_nonblocking(sk);
}

/* What the kernel keeps for a socket in a sockmap; NULL: it is in none. */
static __always_inline const struct sk_psock *psock_of(const struct sock *sk)
{
	__u64 data = (__u64)sk->sk_user_data;

	return data & USER_DATA_PSOCK ? KERNEL_OBJECT(struct sk_psock, data & ~USER_DATA_FLAGS) : NULL;
}

#define UNREAD_UNKNOWN (~0ULL)

/* Bytes that were redirected to it and are not read. Unknown for one that is in no sockmap. */
static __always_inline __u64 unread_bytes(const struct sock *sk)
{
	const struct sk_psock *psock = psock_of(sk);

	if (!psock || !bpf_core_field_exists(psock->msg_tot_len))
		return UNREAD_UNKNOWN;
	return psock->msg_tot_len;
}

/* Past this point the kernel may refuse memory, and send() would fail where TCP waits. */
static __always_inline bool is_short_of_memory(const struct sock *sk)
{
	unsigned long *pressure = sk->__sk_common.skc_prot->memory_pressure;

	return !pressure || KERNEL_OBJECT(struct hlist_head, pressure)->first;
}

/* TLS in the kernel puts its own meaning on what is sent and received, and MPTCP its own order. */
static __always_inline bool is_plain_tcp(const struct tcp_sock *tcp)
{
	if (bpf_core_field_exists(tcp->is_mptcp) && tcp->is_mptcp)
		return false;
	return !((const struct inet_connection_sock *)tcp)->icsk_ulp_ops;
}

#endif
