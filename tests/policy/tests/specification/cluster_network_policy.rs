//! <https://network-policy-api.sigs.k8s.io/user-stories/>, and the documentation of the API's fields.

use weft_policy_test::connection::Protocol::{Icmp, Tcp, Udp};
use weft_policy_test::evaluate::Side;

use super::*;

fn policy(name: &str, tier: &str, priority: u32, rest: &str) -> String {
    format!(
        "---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {{name: {name}}}\n\
         spec: {{tier: {tier}, priority: {priority}, {rest}}}\n"
    )
}

const ISOLATE: &str = "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
    metadata: {name: isolate, namespace: default}\nspec: {policyTypes: [Ingress, Egress]}\n";
const OPEN: &str = "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
    metadata: {name: open, namespace: default}\nspec: {ingress: [{}], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}\n";

/// Stories 1 and 2.
#[test]
fn an_admin_decides_before_network_policies() {
    let deny = policy(
        "cluster-wide-deny-example",
        "Admin",
        10,
        "subject: {namespaces: {matchLabels: {kubernetes.io/metadata.name: default}}}, \
         ingress: [{name: select-all-deny-all, action: Deny, from: [{namespaces: {matchLabels: {}}}]}]",
    );
    assert_eq!(
        who_reaches(&with(&format!("{deny}{OPEN}")), DB, Tcp, 80),
        [THIS_NODE, OTHER_NODE, "172.17.0.9", "172.17.1.9"],
        "it is about pods, and host-networked ones are none"
    );
    let allow = policy(
        "cluster-wide-allow-example",
        "Admin",
        30,
        "subject: {namespaces: {}}, \
         ingress: [{action: Accept, from: [{namespaces: {matchLabels: {kubernetes.io/metadata.name: mine}}}]}], \
         egress: [{action: Accept, to: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {role: db}}}}]}]",
    );
    let cluster = with(&format!("{allow}{ISOLATE}"));
    assert_eq!(who_reaches(&cluster, DB, Tcp, 80), [MINE, THIS_NODE]);
    let out = |to| judge(&cluster, Side::Egress, (FRONTEND, to, Tcp, 80));
    assert_eq!((out(DB), out(MINE)), (Verdict::Allow, Verdict::Deny));
    // "If both could match", the lower priority is asked first.
    assert_eq!(
        who_reaches(&with(&format!("{allow}{deny}")), DB, Tcp, 80),
        [THIS_NODE, OTHER_NODE, "172.17.0.9", "172.17.1.9"]
    );
}

/// Story 3: "traffic is delegated [...] If no k8s network policies match the delegated traffic, the traffic will be allowed."
#[test]
fn pass_leaves_it_to_the_next_tier() {
    let pass = policy(
        "pub-svc-delegate-example",
        "Admin",
        20,
        "subject: {namespaces: {}}, egress: [{action: Pass, protocols: [{tcp: {destinationPort: {number: 8080}}}], \
         to: [{pods: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}, podSelector: {matchLabels: {role: db}}}}]}]",
    );
    let deny = policy(
        "rest",
        "Admin",
        21,
        "subject: {namespaces: {}}, egress: [{action: Deny, to: [{networks: [0.0.0.0/0]}]}]",
    );
    let out = |cluster: &Cluster, port| judge(cluster, Side::Egress, (FRONTEND, DB, Tcp, port));
    let open = with(&format!("{pass}{deny}"));
    assert_eq!(
        (out(&open, 8080), out(&open, 8081)),
        (Verdict::Allow, Verdict::Deny)
    );
    let isolated = with(&format!("{pass}{deny}{ISOLATE}"));
    assert_eq!(out(&isolated, 8080), Verdict::Deny);
}

/// Story 5, and "v1.NetworkPolicy always makes a final decision for selected pods".
#[test]
fn baseline_is_for_pods_that_no_network_policy_selects() {
    let baseline = policy(
        "default",
        "Baseline",
        10,
        "subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]",
    );
    let cluster = with(&format!("{baseline}{OPEN}"));
    let reach = |to| judge(&cluster, Side::Ingress, (OTHER, to, Tcp, 80));
    assert_eq!((reach(DB), reach(MINE)), (Verdict::Allow, Verdict::Deny));
    assert_eq!(
        who_reaches(&cluster, MINE, Tcp, 80),
        [THIS_NODE, OTHER_NODE, "172.17.0.9", "172.17.1.9"]
    );
}

#[test]
fn rules_in_order_and_policies_by_priority_then_name() {
    let rule = |action, port| {
        format!(
            "{{action: {action}, from: [{{namespaces: {{}}}}], protocols: [{{tcp: {{destinationPort: {port}}}}}]}}"
        )
    };
    let rules = |a: &str, b: &str| format!("subject: {{namespaces: {{}}}}, ingress: [{a}, {b}]");
    let first = rules(
        &rule("Accept", "{number: 80}"),
        &rule("Deny", "{range: {start: 79, end: 81}}"),
    );
    let cluster = with(&policy("a", "Admin", 0, &first));
    let reach = |cluster: &Cluster, port| judge(cluster, Side::Ingress, (OTHER, DB, Tcp, port));
    use Verdict::{Allow, Deny};
    assert_eq!(
        [78, 79, 80, 81, 82].map(|p| reach(&cluster, p)),
        [Allow, Deny, Allow, Deny, Allow]
    );

    let one = |action| {
        format!(
            "subject: {{namespaces: {{}}}}, ingress: [{}]",
            rule(action, "{number: 80}")
        )
    };
    for (a, b, expected) in [("Accept", "Deny", Allow), ("Deny", "Accept", Deny)] {
        let (a, b) = (
            policy("a", "Admin", 7, &one(a)),
            policy("b", "Admin", 7, &one(b)),
        );
        assert_eq!(reach(&with(&format!("{b}{a}")), 80), expected);
    }
}

#[test]
fn egress_peers() {
    let to = |peer: &str, protocols: &str| {
        with(&policy(
            "a",
            "Admin",
            1,
            &format!(
                "subject: {{pods: {{podSelector: {{matchLabels: {{role: db}}}}}}}}, egress: [{{action: Deny, to: [{peer}]{protocols}}}]"
            ),
        ))
    };
    let refused = |cluster: &Cluster, protocol, port| {
        [FRONTEND, OTHER, THIS_NODE, OTHER_NODE, "172.17.0.9"]
            .into_iter()
            .filter(|to| judge(cluster, Side::Egress, (DB, to, protocol, port)) == Verdict::Deny)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        refused(&to("{nodes: {}}", ""), Tcp, 1),
        [OTHER_NODE],
        "its own node is always let in and out"
    );
    assert_eq!(
        refused(&to("{nodes: {matchLabels: {role: worker}}}", ""), Tcp, 1),
        [""; 0]
    );
    // "Networks matches both regular IP traffic and ICMP traffic"
    let networks = to("{networks: [172.16.0.0/12, 10.0.0.4/32, '::/0']}", "");
    assert_eq!(refused(&networks, Icmp, 0), [OTHER, "172.17.0.9"]);
    let udp = to(
        "{namespaces: {}}",
        ", protocols: [{udp: {destinationPort: {number: 53}}}]",
    );
    assert_eq!(refused(&udp, Udp, 53), [FRONTEND, OTHER]);
    assert_eq!(refused(&udp, Tcp, 53), [""; 0]);
    // Fail closed: "treat the rule as a 'Deny all' rule".
    let names = to(
        "{domainNames: [example.com]}",
        ", protocols: [{tcp: {destinationPort: {number: 80}}}]",
    );
    assert_eq!(
        refused(&names, Udp, 53),
        [FRONTEND, OTHER, OTHER_NODE, "172.17.0.9"]
    );
}

#[test]
fn a_named_port_is_of_any_protocol() {
    let cluster = with(&policy(
        "a",
        "Baseline",
        1,
        "subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{destinationNamedPort: dns}]}]",
    ));
    let reach = |to, protocol| judge(&cluster, Side::Ingress, (OTHER, to, protocol, 53));
    assert_eq!(reach(DB, Udp), Verdict::Deny);
    assert_eq!(reach(DB, Tcp), Verdict::Allow);
    assert_eq!(reach(FRONTEND, Udp), Verdict::Allow);
}
