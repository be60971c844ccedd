/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The few kernel structs that programs look into, each with only the fields used. Offsets are those of the running kernel
 * (CO-RE, https://docs.kernel.org/bpf/libbpf/libbpf_overview.html), so the rest of the layout does not matter here.
 */
#ifndef WEFT_KERNEL_H
#define WEFT_KERNEL_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

/* Any word of memory: only structs can be read from as they are. */
struct hlist_head {
	struct hlist_node *first;
};

struct proto {
	unsigned long *memory_pressure; /* points to not zero: all sockets together use more than they should */
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num; /* local port, host order */
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct proto *skc_prot;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct file {
	unsigned int f_flags; /* O_* */
};

struct socket {
	struct file *file;
};

typedef struct {
	int counter;
} atomic_t;

struct sock {
	struct sock_common __sk_common;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
	__u16 sk_protocol;
	int sk_err;
	int sk_rcvlowat;
	struct socket *sk_socket; /* NULL before accept() and after close() */
	void *sk_user_data;
};

struct refcount_struct {
	atomic_t refs;
};

/* A socket's part of a sockmap, of which `sk_user_data` is the address and some flags. */
struct sk_psock {
	__u32 msg_tot_len; /* bytes redirected to it and not read */
	struct refcount_struct refcnt;
};

struct tcp_ulp_ops;

struct inet_connection_sock {
	__u32 icsk_user_timeout; /* milliseconds */
	const struct tcp_ulp_ops *icsk_ulp_ops;
};

struct tcp_sock {
	__u32 rcv_nxt;   /* the byte that is expected next */
	__u32 snd_una;   /* first byte that is not acknowledged */
	__u32 write_seq; /* after the last byte that was written */
	__u8 bpf_sock_ops_cb_flags;
	_Bool is_mptcp; /* only with CONFIG_MPTCP */
	__u8 nonagle : 4;
};

struct udp_sock;
struct seq_file;
struct bpf_map;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct bpf_iter__udp {
	struct bpf_iter_meta *meta;
	struct udp_sock *udp_sk;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	void *key;
	void *value;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

#endif
