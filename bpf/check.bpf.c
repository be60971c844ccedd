/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What would happen to a flow's first packet? Asks those that decide, and changes nothing. Run by the agent, never attached. */
#include "lib/identity.h"
#include "lib/mtls.h"
#include "lib/policy.h"
#include "lib/proxy_state.h"

/* What the policy of the pod at `here` says of a flow between it and `there`. */
static __always_inline bool check_side(const struct party *here, const struct party *there, bool egress, __u32 point,
                                       struct rule *rule)
{
	struct question question = {
		.interface = here->interface,
		.egress = egress,
		.peer = there->identity,
		.peer_flags = there->flags,
		.point = point,
	};

	if (!here->interface)
		return false;
	judge(&question, rule);
	if (rule->verdict == VERDICT_PROXY) {
		/* As for a packet that comes to it: see ask(). */
		if (!(proxy_steering() & STEER_INBOUND)) {
			rule->verdict = VERDICT_DENY;
			rule->audit = 0;
		} else if (!is_proxy_ready()) {
			answer(rule, VERDICT_DENY, REASON_PROXY_DOWN);
		}
	}
	return true;
}

/* Whether it would have to come through a tunnel, and comes from where none begins. */
static __always_inline bool is_plain(const struct check *check, const struct party *source)
{
	__u32 flags = mtls_flags();
	struct weft_addr addr = check->destination;

	if (check->protocol != IPPROTO_TCP || source->interface || source->flags & IDENTITY_HOST || !(flags & MTLS_REQUIRES))
		return false;
	if (!requires_tunnel(&addr, check->destination_port, flags))
		return false;
	addr = check->source;
	return !mtls_at(&addr, 0);
}

SEC("tc")
int weft_check(struct __sk_buff *skb)
{
	struct party source, destination;
	struct check check;
	__u32 point;

	if (bpf_skb_load_bytes(skb, 0, &check, sizeof(check)))
		return -EINVAL;
	identify(&check.source, &source);
	identify(&check.destination, &destination);
	check.source_identity = source.identity;
	check.destination_identity = destination.identity;
	point = policy_point(check.protocol, check.destination_port);
	check.egress_known = check_side(&source, &destination, true, point, &check.egress);
	check.ingress_known = check_side(&destination, &source, false, point, &check.ingress);
	if (check.ingress_known && check.ingress.verdict == VERDICT_ALLOW && is_plain(&check, &source))
		answer(&check.ingress, VERDICT_DENY, REASON_PLAIN_TEXT);
	return bpf_skb_store_bytes(skb, 0, &check, sizeof(check), 0);
}

char LICENSE[] SEC("license") = "GPL";
