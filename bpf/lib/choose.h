/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which backend takes a new connection. Nothing here knows of sockets, so that BPF_PROG_TEST_RUN reaches all of it.
 *
 * The agent changes a service by writing new slots elsewhere, then the service, and frees the old slots and backends last. A
 * reader that holds the old service may find its slots given to another service, or its backend gone: what it finds is a backend
 * of another service, or none. It then begins again with the service as it is now.
 */
#ifndef WEFT_LIB_CHOOSE_H
#define WEFT_LIB_CHOOSE_H

#include "../include/weft.h"
#include "backend.h"
#include "counter.h"
#include "health.h"
#include "rtt.h"

/* One change overtakes a reader almost never, three in a row only when the tables are broken. */
#define CHOICE_ATTEMPTS 4

struct choice {
	__u32 service; /* service id */
	__u32 backend; /* backend id */
	struct weft_addr addr;
	__be16 port;
	__u16 pad;
	__u32 flags; /* enum service_flags, and enum socket_flags that the connection begins with */
};

enum choice_result {
	CHOICE_NO_SERVICE, /* not a service address */
	CHOICE_MADE,
	CHOICE_NO_BACKEND, /* a service without a usable backend */
	CHOICE_PROXIED,    /* of layer 7: Envoy chooses for each request */
};

/* A number in [0, bound), each as likely (Lemire's multiply-shift; the bias is below bound / 2^32). */
static __always_inline __u32 random_below(__u32 bound)
{
	return ((__u64)bpf_get_prandom_u32() * bound) >> 32;
}

/* Finalizer of MurmurHash3: cookies are small consecutive numbers, and each bit has to count. */
static __always_inline __u32 hash_client(__u64 client)
{
	client ^= client >> 33;
	client *= 0xff51afd7ed558ccdULL;
	client ^= client >> 33;
	client *= 0xc4ceb9fe1a85ec53ULL;
	client ^= client >> 33;
	return (__u32)client;
}

/* Backend id at one of a service's slots; 0 if there is none. */
static __always_inline __u32 backend_at(const struct service *service, __u32 index)
{
	__u32 place = service->base + index;
	struct slot *slot = bpf_map_lookup_elem(&slots, &place);

	if (!slot)
		return 0;
	/* Most tables have equal weights, or are laid out by turn or by hash: no second random number for those. */
	if (slot->threshold == 0xffffffff)
		return slot->backend;
	return bpf_get_prandom_u32() <= slot->threshold ? slot->backend : slot->alias;
}

static __always_inline __u32 choose_random(const struct service *service)
{
	return backend_at(service, random_below(service->slots));
}

static __always_inline __u32 choose_in_turn(const struct service *service)
{
	__u32 id = service->id;
	__u64 *cursor = bpf_map_lookup_elem(&cursors, &id);

	if (!cursor)
		return choose_random(service);
	return backend_at(service, __sync_fetch_and_add(cursor, 1) % service->slots);
}

/* Power of two choices. */
static __always_inline __u32 choose_least_loaded(const struct service *service)
{
	__u32 a = choose_random(service), b = choose_random(service);
	struct backend_load *load_a, *load_b;
	struct backend *backend_a, *backend_b;

	if (a == b || !a || !b)
		return a;
	if ((service->flags & SERVICE_OUTLIER) && any_ejected(service->id)) {
		if (is_ejected(a))
			return b;
		if (is_ejected(b))
			return a;
	}
	load_a = load_by_id(a);
	load_b = load_by_id(b);
	backend_a = backend_by_id(a);
	backend_b = backend_by_id(b);
	if (!load_a || !load_b || !backend_a || !backend_b)
		return a;
	return waits_less(load_a, backend_a->weight, load_b, backend_b->weight) ? a : b;
}

static __always_inline __u32 choose_by_policy(const struct service *service, __u64 client)
{
	switch (service->policy) {
	case LB_ROUND_ROBIN:
		return choose_in_turn(service);
	case LB_LEAST_REQUEST:
		return choose_least_loaded(service);
	case LB_MAGLEV:
		return backend_at(service, hash_client(client) % service->slots);
	default:
		return choose_random(service);
	}
}

/* Other places to look at when the chosen backend is ejected: first at random, then side by side. */
#define DETOURS 64
#define RANDOM_DETOURS 8

struct detour {
	struct service service;
	__u32 start;
	__u32 found;
};

static long try_detour(__u32 step, struct detour *detour)
{
	const struct service *service = &detour->service;
	/* A client's way round is always the same with Maglev, whose neighbouring slots are of backends in no order. */
	bool at_random = step < RANDOM_DETOURS && service->policy != LB_MAGLEV;
	__u32 index = at_random ? random_below(service->slots) : (detour->start + step) % service->slots;
	__u32 id = backend_at(service, index);

	if (!id || is_ejected(id))
		return 0;
	detour->found = id;
	return 1;
}

/*
 * Another backend where `id` is ejected. Bounded, and without a find the choice stands: when most of a service fails, traffic to
 * what may fail is better than none (Envoy's panic mode).
 */
static __noinline __u32 pass_over_ejected(const struct service *service, __u32 id, __u64 client)
{
	struct detour detour = { .service = *service };

	if (!id || !service->slots || !any_ejected(service->id))
		return id;
	if (!is_ejected(id)) {
		welcome_back(id);
		return id;
	}
	detour.start = service->policy == LB_MAGLEV ? hash_client(client) : bpf_get_prandom_u32();
	bpf_loop(DETOURS, try_detour, &detour, 0);
	return detour.found ? detour.found : id;
}

/* The backend that this client had, if it came back in time and the backend still takes connections of this service. */
static __always_inline __u32 choose_by_affinity(const struct service *service, __u64 client)
{
	struct affinity_key key = { .client = client, .service = service->id };
	struct affinity *known = bpf_map_lookup_elem(&affinities, &key);
	struct backend *backend;
	__u64 now;
	__u32 id;

	if (!known)
		return 0;
	now = bpf_ktime_get_ns();
	if (now - known->last_ns > service->affinity_s * 1000000000ULL)
		return 0;
	id = known->backend;
	backend = backend_by_id(id);
	if (!backend || backend->service != service->id || !(backend->flags & BACKEND_ACCEPTS))
		return 0;
	if ((service->flags & SERVICE_OUTLIER) && is_ejected(id))
		return 0;
	known->last_ns = now;
	count(COUNTER_AFFINITY_HITS);
	return id;
}

static __always_inline void remember_affinity(const struct service *service, __u64 client, __u32 backend)
{
	struct affinity_key key = { .client = client, .service = service->id };
	struct affinity value = { .last_ns = bpf_ktime_get_ns(), .backend = backend };

	bpf_map_update_elem(&affinities, &key, &value, BPF_ANY);
}

/*
 * The agent may give the place to another backend while its address is copied here. It writes the id before the address, so an id
 * that is still the same afterwards says that the address was this backend's.
 */
static __always_inline bool fill_choice(const struct service *service, __u32 id, struct choice *choice)
{
	struct backend *backend;

	touch_load(id);
	backend = backend_by_id(id);

	if (!backend || backend->service != service->id)
		return false;
	choice->service = service->id;
	choice->flags = service->flags;
	choice->backend = id;
	choice->addr = backend->addr;
	choice->port = backend->port;
	barrier();
	return *(volatile __u32 *)&backend->id == id;
}

/* Else the verifier would follow all ways through it in each turn of the loop around it, and after each way of the turn before. */
VERIFIED_ONCE int choose_once(const struct service *service, __u64 client, struct choice *choice)
{
	bool sticky;
	__u32 id;

	if (!service || !choice)
		return false;
	sticky = service->affinity_s != 0;
	id = sticky ? choose_by_affinity(service, client) : 0;
	if (id)
		return fill_choice(service, id, choice);
	id = choose_by_policy(service, client);
	if (service->flags & SERVICE_OUTLIER)
		id = pass_over_ejected(service, id, client);
	if (!id || !fill_choice(service, id, choice))
		return false;
	if (sticky)
		remember_affinity(service, client, id);
	return true;
}

/* What the node itself opens, or a pod that is out of the mesh, crosses no interface where it could be handed over to Envoy. */
static __always_inline bool is_past_proxy(__u64 client)
{
	return client == config.node_cookie || bpf_map_lookup_elem(&outsiders, &client);
}

/* Chooses a backend for a new connection to `key` from `client`: a network namespace cookie, or a hash of the address outside. */
static __always_inline enum choice_result choose(const struct service_key *key, __u64 client, struct choice *choice)
{
	for (int attempt = 0; attempt < CHOICE_ATTEMPTS; attempt++) {
		struct service *found = bpf_map_lookup_elem(&services, key);
		struct service service;

		if (!found)
			return attempt ? CHOICE_NO_BACKEND : CHOICE_NO_SERVICE;
		/* The agent replaces the element, never changes it in place: what is read here belongs together. */
		service = *found;
		choice->service = service.id;
		choice->flags = service.flags;
		/* What comes from outside is handed over by nobody either. */
		if ((service.flags & SERVICE_LAYER7) && !key->outside && !is_past_proxy(client))
			return CHOICE_PROXIED;
		if (!service.slots)
			return CHOICE_NO_BACKEND;
		touch_backends(&service);
		if (choose_once(&service, client, choice))
			return CHOICE_MADE;
		count(COUNTER_CHOICE_RETRIES);
	}
	count(COUNTER_CHOICE_FAILURES);
	return CHOICE_NO_BACKEND;
}

#endif
