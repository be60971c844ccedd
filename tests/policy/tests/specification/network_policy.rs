//! <https://kubernetes.io/docs/concepts/services-networking/network-policies/>

use weft_policy_test::connection::Protocol::{Gre, Icmp, Sctp, Tcp, Udp};
use weft_policy_test::evaluate::{DefaultPolicy, Side, Verdict};

use super::*;

/// "An example NetworkPolicy might look like this".
const EXAMPLE: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: test-network-policy, namespace: default}
spec:
  podSelector: {matchLabels: {role: db}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from:
    - ipBlock: {cidr: 172.17.0.0/16, except: [172.17.1.0/24]}
    - namespaceSelector: {matchLabels: {project: myproject}}
    - podSelector: {matchLabels: {role: frontend}}
    ports:
    - {protocol: TCP, port: 6379}
  egress:
  - to:
    - ipBlock: {cidr: 10.0.0.0/24}
    ports:
    - {protocol: TCP, port: 5978}
";

#[test]
fn the_example_of_the_documentation() {
    let cluster = with(EXAMPLE);
    assert_eq!(
        who_reaches(&cluster, DB, Tcp, 6379),
        [FRONTEND, MINE, THIS_NODE, "172.17.0.9"]
    );
    // "(2) allows connections to TCP port 5978": nothing else, but from the pod's own node.
    for (protocol, port) in [(Tcp, 6380), (Udp, 6379), (Icmp, 0), (Gre, 0)] {
        assert_eq!(who_reaches(&cluster, DB, protocol, port), [THIS_NODE]);
    }
    let out = |to, port| judge(&cluster, Side::Egress, (DB, to, Tcp, port));
    assert_eq!(out("10.0.0.200", 5978), Verdict::Allow);
    assert_eq!(
        out(FRONTEND, 5978),
        Verdict::Allow,
        "pods are in blocks, too"
    );
    assert_eq!(out("10.0.1.0", 5978), Verdict::Deny);
    assert_eq!(out(FRONTEND, 80), Verdict::Deny);
    assert_eq!(out(THIS_NODE, 80), Verdict::Allow);
    assert_eq!(out(OTHER_NODE, 80), Verdict::Deny);
    // "isolates role=db pods [...] (if they weren't already isolated)": no others.
    assert_eq!(
        judge(&cluster, Side::Egress, (FRONTEND, DB, Udp, 1)),
        Verdict::Allow
    );
}

#[test]
fn both_selectors_in_one_peer_are_anded_and_in_two_are_ored() {
    let peers = |from: &str| {
        with(&format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: a, namespace: default}}\n\
             spec: {{podSelector: {{matchLabels: {{role: db}}}}, ingress: [{{from: {from}}}]}}"
        ))
    };
    let and = peers("[{namespaceSelector: {}, podSelector: {matchLabels: {role: frontend}}}]");
    assert_eq!(who_reaches(&and, DB, Tcp, 1), [FRONTEND, OTHER, THIS_NODE]);
    let or = peers("[{namespaceSelector: {matchLabels: {project: myproject}}}, {podSelector: {}}]");
    assert_eq!(who_reaches(&or, DB, Tcp, 1), [FRONTEND, MINE, THIS_NODE]);
    // "Targeting a Namespace by its name".
    let named = peers(
        "[{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [other, x]}]}}]",
    );
    assert_eq!(who_reaches(&named, DB, Tcp, 1), [OTHER, THIS_NODE]);
    let without = peers(
        "[{namespaceSelector: {matchExpressions: [{key: project, operator: NotIn, values: [myproject]}]}}]",
    );
    assert_eq!(
        who_reaches(&without, DB, Tcp, 1),
        [FRONTEND, OTHER, THIS_NODE]
    );
}

#[test]
fn default_policies() {
    let all = |spec: &str| {
        with(&format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: a, namespace: default}}\nspec: {spec}"
        ))
    };
    let verdicts = |cluster| {
        [Side::Ingress, Side::Egress].map(|side| match side {
            Side::Ingress => judge(&cluster, side, (MINE, DB, Tcp, 80)),
            Side::Egress => judge(&cluster, side, (DB, MINE, Tcp, 80)),
        })
    };
    use Verdict::{Allow, Deny};
    for (spec, expected) in [
        ("{podSelector: {}, policyTypes: [Ingress]}", [Deny, Allow]),
        (
            "{podSelector: {}, ingress: [{}], policyTypes: [Ingress]}",
            [Allow, Allow],
        ),
        ("{podSelector: {}, policyTypes: [Egress]}", [Allow, Deny]),
        (
            "{podSelector: {}, egress: [{}], policyTypes: [Egress]}",
            [Allow, Allow],
        ),
        (
            "{podSelector: {}, policyTypes: [Ingress, Egress]}",
            [Deny, Deny],
        ),
        // "by default Ingress will always be set and Egress will be set if the NetworkPolicy has any egress rules"
        ("{podSelector: {}}", [Deny, Allow]),
        ("{podSelector: {}, egress: []}", [Deny, Allow]),
        ("{podSelector: {}, egress: [{}]}", [Deny, Allow]),
        (
            "{podSelector: {}, egress: [{ports: [{port: 81}]}]}",
            [Deny, Deny],
        ),
        ("{}", [Deny, Allow]),
        (
            "{policyTypes: [], ingress: [{from: [], ports: []}]}",
            [Allow, Allow],
        ),
        // What policyTypes does not name does not count.
        (
            "{policyTypes: [Egress], ingress: [{ports: [{port: 1}]}], egress: [{}]}",
            [Allow, Allow],
        ),
    ] {
        assert_eq!(verdicts(all(spec)), expected, "{spec}");
    }
}

#[test]
fn ports_by_number_range_and_name() {
    let allowed = |ports: &str| {
        let cluster = with(&format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: a, namespace: default}}\n\
             spec: {{ingress: [{{ports: {ports}}}]}}"
        ));
        let try_all = [
            (Tcp, 52),
            (Tcp, 53),
            (Tcp, 6379),
            (Tcp, 6380),
            (Tcp, 6381),
            (Udp, 53),
            (Udp, 6379),
            (Sctp, 53),
            (Icmp, 0),
        ];
        try_all
            .into_iter()
            .filter(|(protocol, port)| {
                judge(&cluster, Side::Ingress, (MINE, DB, *protocol, *port)) == Verdict::Allow
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(allowed("[{port: 53}]"), [(Tcp, 53)]);
    assert_eq!(
        allowed("[{port: 53, endPort: 6380}]"),
        [(Tcp, 53), (Tcp, 6379), (Tcp, 6380)]
    );
    assert_eq!(
        allowed("[{port: 53, endPort: 53, protocol: UDP}]"),
        [(Udp, 53)]
    );
    assert_eq!(allowed("[{protocol: SCTP}]"), [(Sctp, 53)]);
    assert_eq!(allowed("[{port: sql}]"), [(Tcp, 6379)]);
    assert_eq!(allowed("[{port: dns}]"), [], "it is a UDP port");
    assert_eq!(
        allowed("[{port: dns, protocol: UDP}, {port: nobody-has-it}]"),
        [(Udp, 53)]
    );
    assert_eq!(allowed("[]").len(), 9);
}

#[test]
fn a_named_port_of_an_egress_rule_is_the_destinations() {
    let cluster = with(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a, namespace: default}\n\
         spec: {policyTypes: [Egress], egress: [{ports: [{port: sql}]}]}",
    );
    let out = |to, port| judge(&cluster, Side::Egress, (FRONTEND, to, Tcp, port));
    assert_eq!(out(DB, 6379), Verdict::Allow);
    assert_eq!(out(MINE, 6379), Verdict::Deny);
    assert_eq!(out("172.17.0.1", 6379), Verdict::Deny);
}

#[test]
fn policies_add_up_and_the_default_is_an_option() {
    let cluster = with(&format!(
        "{EXAMPLE}---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: more, namespace: default}}\n\
         spec: {{ingress: [{{from: [{{ipBlock: {{cidr: 192.168.0.0/30}}}}]}}]}}"
    ));
    assert_eq!(
        who_reaches(&cluster, DB, Tcp, 6379),
        [FRONTEND, MINE, THIS_NODE, OTHER_NODE, "172.17.0.9"],
        "a node is in a block, though its pods are not in a selector"
    );
    let by_default = |default| judge_by(&cluster, default, Side::Egress, (OTHER, DB, Tcp, 80));
    assert_eq!(by_default(DefaultPolicy::Allow), Verdict::Allow);
    assert_eq!(by_default(DefaultPolicy::Deny), Verdict::Deny);
}

#[test]
fn an_audited_policy_only_tells() {
    let audited = EXAMPLE.replace(
        "namespace: default}",
        "namespace: default, annotations: {weft.io/mode: Audit}}",
    );
    let cluster = with(&audited);
    let view = View {
        cluster: &cluster,
        node: "n1",
        default: DefaultPolicy::Allow,
    };
    for (port, audited) in [(6379, false), (80, true)] {
        let connection = Connection {
            source: FRONTEND.parse().unwrap(),
            destination: DB.parse().unwrap(),
            protocol: Tcp,
            source_port: 1,
            destination_port: port,
        };
        let judgement = view.judge(Side::Ingress, &connection).unwrap();
        assert_eq!(
            (judgement.verdict, judgement.audited),
            (Verdict::Allow, audited)
        );
    }
}
