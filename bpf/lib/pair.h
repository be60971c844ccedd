/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Which connections have both ends in local pods, or in one, or one of them at the node's Envoy, and how a pair of sockets is made and forgotten. */
#ifndef WEFT_LIB_PAIR_H
#define WEFT_LIB_PAIR_H

#include "address.h"
#include "connection.h"
#include "counter.h"
#include "flow.h"
#include "identity.h"
#include "proxy_state.h"
#include "reader.h"
#include "within.h"

#define ACCEL_AF_INET6 10

static __always_inline bool is_enabled(void)
{
	__u32 zero = 0;
	struct accel_settings *settings = bpf_map_lookup_elem(&accel_settings, &zero);

	return settings && settings->enabled;
}

/*
 * One word of a context. In assembly, as the verifier wants each load to have an offset of its own, and the compiler merges those of
 * the two address families.
 */
#define CONTEXT_WORD(kind, field, offset)                                                                                          \
	({                                                                                                                         \
		__u32 word;                                                                                                        \
		asm volatile("%0 = *(u32 *)(%1 + %2)" : "=r"(word) : "r"(ctx), "i"(offsetof(struct kind, field) + (offset)));      \
		word;                                                                                                              \
	})

/* The connection as a packet from this socket would show it. */
#define DEFINE_CONNECTION_OF(kind)                                                                                                 \
	static __always_inline void connection_of_##kind(const struct kind *ctx, struct packet *sent)                              \
	{                                                                                                                          \
		sent->protocol = IPPROTO_TCP;                                                                                      \
		sent->source_port = bpf_htons(ctx->local_port);                                                                    \
		sent->destination_port = bpf_htons(bpf_ntohl(ctx->remote_port));                                                   \
		if (ctx->family != ACCEL_AF_INET6) {                                                                               \
			sent->source = v4_mapped(CONTEXT_WORD(kind, local_ip4, 0));                                                \
			sent->destination = v4_mapped(CONTEXT_WORD(kind, remote_ip4, 0));                                          \
			return;                                                                                                    \
		}                                                                                                                  \
		sent->source.word[0] = CONTEXT_WORD(kind, local_ip6, 0);                                                           \
		sent->source.word[1] = CONTEXT_WORD(kind, local_ip6, 4);                                                           \
		sent->source.word[2] = CONTEXT_WORD(kind, local_ip6, 8);                                                           \
		sent->source.word[3] = CONTEXT_WORD(kind, local_ip6, 12);                                                          \
		sent->destination.word[0] = CONTEXT_WORD(kind, remote_ip6, 0);                                                     \
		sent->destination.word[1] = CONTEXT_WORD(kind, remote_ip6, 4);                                                     \
		sent->destination.word[2] = CONTEXT_WORD(kind, remote_ip6, 8);                                                     \
		sent->destination.word[3] = CONTEXT_WORD(kind, remote_ip6, 12);                                                    \
	}
DEFINE_CONNECTION_OF(bpf_sock_ops)
DEFINE_CONNECTION_OF(sk_msg_md)

static __always_inline struct accel_end *end_of_pair(struct accel_pair *pair, __u32 end)
{
	return end ? &pair->end_1 : &pair->end_0;
}

static __always_inline __u32 interface_of(const struct weft_addr *addr)
{
	struct identity *found = bpf_map_lookup_elem(&identities, addr);

	return found ? found->interface : 0;
}

/*
 * The pod behind an interface, unless its owner has opted out. An address alone proves nothing: whoever may make network namespaces
 * can give any address to a socket there.
 */
static __always_inline struct accel_pod *willing_pod(__u32 interface)
{
	struct accel_pod *pod = interface ? bpf_map_lookup_elem(&accel_pods, &interface) : NULL;

	return pod && !(pod->flags & ACCEL_POD_OFF) ? pod : NULL;
}

static __always_inline __u32 netns_of(const struct tcp_sock *tcp)
{
	return ((const struct sock *)tcp)->__sk_common.skc_net.net->ns.inum;
}

static __always_inline bool owns_address(const struct accel_pod *pod, const struct tcp_sock *tcp)
{
	return pod && pod->netns && pod->netns == netns_of(tcp);
}

/* Whether who accepts there is likely to poll: its listener does. */
static __always_inline bool is_accepted_without_blocking(__u32 netns, __be16 port, __u16 family)
{
	struct accel_listener key = { .netns = netns, .port = bpf_ntohs(port), .family = family };
	__u64 *found = bpf_map_lookup_elem(&accel_listeners, &key);
	const struct sock *sk;

	if (!found) {
		/* Listening on [::] takes IPv4 as well. */
		key.family = ACCEL_AF_INET6;
		found = bpf_map_lookup_elem(&accel_listeners, &key);
	}
	if (!found)
		return false;
	sk = KERNEL_OBJECT(struct sock, *found);
	return sk->__sk_common.skc_state == ACCEL_LISTEN && sk->__sk_common.skc_num == key.port && is_nonblocking(sk);
}

/* Puts the socket of this callback into its place of the pair. */
static __always_inline bool enter(struct bpf_sock_ops *ctx, struct accel_key *key, struct accel_end *end, struct tcp_sock *tcp)
{
	end->sock = (__u64)tcp;
	end->netns = key->netns;
	/* What a closed connection between the same ports left there has another socket. */
	return !bpf_sock_hash_update(ctx, &accel_sockets, key, BPF_ANY) &&
	       !bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
}

static __always_inline bool is_of_unaccelerated_service(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct socket_service *socket = connection_of(cookie);

	return socket && socket->flags & SERVICE_UNACCELERATED;
}

/* TCP Fast Open: bytes that are still on their way with TCP would be overtaken. */
static __always_inline bool has_written(const struct tcp_sock *tcp)
{
	return tcp->write_seq != tcp->snd_una;
}

/* Whether this end of a connection is Envoy's, and the other a local pod's. No pod can have a socket of the node's namespace. */
static __always_inline bool is_envoys(const struct flow_key *key, __u32 end)
{
	struct flow *flow = bpf_map_lookup_elem(&ct, key);

	return flow && envoys_end(flow) == end;
}

static __always_inline bool polls(const struct tcp_sock *tcp)
{
	return config.accel_blocking || is_nonblocking((const struct sock *)tcp);
}

static __always_inline bool takes_polling(__u32 netns, const struct packet *sent, __u16 family)
{
	return config.accel_blocking || is_accepted_without_blocking(netns, sent->destination_port, family);
}

/* Whether the pod takes part, where none of these flags is set, and so does who listens there. */
static __always_inline bool is_open_pod(__u32 interface, const struct packet *sent, __u16 family, __u32 flags)
{
	struct accel_pod *pod = willing_pod(interface);

	return pod && !(pod->flags & flags) && takes_polling(pod->netns, sent, family);
}

/* Whether it is opened to a service that has opted out, and that Envoy takes: those that the kernel takes are known by their sockets. */
static __always_inline bool is_of_unaccelerated_vip(const struct packet *sent)
{
	struct service_key key = { .addr = sent->destination, .port = sent->destination_port, .protocol = IPPROTO_TCP };
	struct service *service = bpf_map_lookup_elem(&services, &key);

	return service && service->flags & SERVICE_UNACCELERATED;
}

/* Whether who has opened this connection and who has taken it are to be a pair. */
static __always_inline bool is_for_a_pair(struct bpf_sock_ops *ctx, const struct packet *sent, const struct accel_key *key,
                                          struct tcp_sock *tcp)
{
	__u32 interface, own;

	if (is_within_namespace(&key->flow))
		return is_willing_namespace(key->netns) && polls(tcp) && takes_polling(key->netns, sent, ctx->family);
	interface = interface_of(&sent->destination);
	if (key->netns == config.node_netns)
		return interface && polls(tcp) && is_envoys(&key->flow, key->end) &&
		       is_open_pod(interface, sent, ctx->family, ACCEL_POD_OFF_FROM_ENVOY);
	/* Envoy takes a pod's connections to services and to pods, of this node and others. */
	if (!interface && !is_proxy_ready())
		return false;
	own = interface_of(&sent->source);
	if (own == interface || !owns_address(willing_pod(own), tcp) || !polls(tcp))
		return false;
	if (is_proxy_ready() && is_envoys(&key->flow, other(key->end)))
		return interface || !is_of_unaccelerated_vip(sent);
	return is_open_pod(interface, sent, ctx->family, 0);
}

/* The client's end comes first: its peer cannot be established before it has answered. */
static __always_inline void client_established(struct bpf_sock_ops *ctx, struct tcp_sock *tcp)
{
	struct packet sent = {};
	struct accel_key key = {}, pair_key;
	struct accel_pair fresh = {}, *pair;

	connection_of_bpf_sock_ops(ctx, &sent);
	key.end = flow_key_of(&sent, &key.flow);
	key.netns = netns_of(tcp);
	if (!is_for_a_pair(ctx, &sent, &key, tcp) || !is_plain_tcp(tcp) || has_written(tcp) || is_of_unaccelerated_service(ctx))
		return;
	pair_key = pair_key_of(&key);
	if (bpf_map_update_elem(&accel_pairs, &pair_key, &fresh, BPF_ANY)) {
		count(COUNTER_ACCEL_FULL);
		return;
	}
	pair = bpf_map_lookup_elem(&accel_pairs, &pair_key);
	if (!pair || enter(ctx, &key, end_of_pair(pair, key.end), tcp))
		return;
	count(COUNTER_ACCEL_FULL);
	bpf_map_delete_elem(&accel_pairs, &pair_key);
}

/*
 * Whether this is what that socket talks to: each expects what the other sends first. Where something translates in between, another
 * connection may have the addresses and ports that the client sees; initial sequence numbers (RFC 9293, 3.4.1) are not alike.
 */
static __always_inline bool is_other_half(const struct accel_end *client, const struct tcp_sock *tcp)
{
	const struct tcp_sock *peer = KERNEL_OBJECT(struct tcp_sock, client->sock);

	return client->sock && peer->snd_una == tcp->rcv_nxt && peer->rcv_nxt == tcp->snd_una;
}

/* Whether the server's end is where its address says: with the node's Envoy, or in the namespace of the pod that has it. */
static __always_inline bool is_own_end(const struct packet *sent, const struct accel_key *key, const struct tcp_sock *tcp)
{
	if (key->netns == config.node_netns)
		return is_envoys(&key->flow, key->end);
	return owns_address(willing_pod(interface_of(&sent->source)), tcp);
}

static __always_inline void server_established(struct bpf_sock_ops *ctx, struct tcp_sock *tcp)
{
	struct packet sent = {};
	struct accel_key key = {}, pair_key;
	struct accel_pair *pair;

	connection_of_bpf_sock_ops(ctx, &sent);
	key.end = flow_key_of(&sent, &key.flow);
	key.netns = netns_of(tcp);
	pair_key = pair_key_of(&key);
	pair = bpf_map_lookup_elem(&accel_pairs, &pair_key);
	if (!pair || !is_plain_tcp(tcp) || !is_other_half(end_of_pair(pair, other(key.end)), tcp))
		return;
	if (!pair_key.netns && !is_own_end(&sent, &key, tcp))
		return;
	if (enter(ctx, &key, end_of_pair(pair, key.end), tcp))
		count(COUNTER_ACCELERATED);
	else
		count(COUNTER_ACCEL_FULL);
}

static __always_inline void remember_listener(__u32 netns, __u16 port, __u16 family, const void *sk)
{
	struct accel_listener key = { .netns = netns, .port = port, .family = family };
	__u64 sock = (__u64)sk;

	bpf_map_update_elem(&accel_listeners, &key, &sock, BPF_ANY);
}

/* Only by the socket that it is about: a later connection between the same ports may have taken its place. */
static __always_inline void closed(struct bpf_sock_ops *ctx, struct tcp_sock *tcp)
{
	struct packet sent = {};
	struct accel_key key = {};
	struct accel_pair *pair;
	__u64 sock = (__u64)tcp;
	__u32 end;

	bpf_map_delete_elem(&accel_leaving, &sock);
	connection_of_bpf_sock_ops(ctx, &sent);
	end = flow_key_of(&sent, &key.flow);
	key.netns = netns_of(tcp);
	key = pair_key_of(&key);
	pair = bpf_map_lookup_elem(&accel_pairs, &key);
	if (pair && end_of_pair(pair, end)->sock == sock)
		bpf_map_delete_elem(&accel_pairs, &key);
}

#endif
