//! <https://istio.io/latest/docs/reference/config/security/authorization-policy/> and
//! <https://istio.io/latest/docs/ambient/usage/l4-policy/>

use weft_policy_test::connection::Protocol::{Icmp, Tcp, Udp};
use weft_policy_test::evaluate::Side;

use super::*;

fn policy(namespace: &str, spec: &str) -> String {
    // Any name will do.
    let name = spec.bytes().map(u64::from).sum::<u64>();
    format!(
        "---\napiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {{name: p{name}, namespace: {namespace}}}\nspec: {spec}\n"
    )
}

const ALL: [&str; 7] = [
    FRONTEND,
    MINE,
    OTHER,
    THIS_NODE,
    OTHER_NODE,
    "172.17.0.9",
    "172.17.1.9",
];

fn reaches(policies: &[String], expected: &[&str]) {
    assert_eq!(
        who_reaches(&with(&policies.concat()), DB, Tcp, 80),
        expected,
        "{}",
        policies.concat()
    );
}

#[test]
fn allow_nothing_and_allow_all() {
    reaches(&[policy("default", "{}")], &[THIS_NODE]);
    reaches(&[policy("default", "{rules: [{}]}")], &ALL);
    reaches(
        &[policy("default", "{selector: {matchLabels: {role: db}}}")],
        &[THIS_NODE],
    );
    reaches(
        &[policy(
            "default",
            "{selector: {matchLabels: {role: other}}}",
        )],
        &ALL,
    );
    reaches(&[policy("default", "{action: DENY}")], &ALL);
    reaches(
        &[policy("default", "{action: DENY, rules: [{}]}")],
        &[THIS_NODE],
    );
    reaches(&[policy("default", "{action: AUDIT, rules: [{}]}")], &ALL);
    reaches(&[policy("other", "{}")], &ALL);
    // "If set to root namespace, the policy applies to all namespaces in a mesh."
    reaches(
        &[policy(
            "istio-system",
            "{selector: {matchLabels: {role: db}}}",
        )],
        &[THIS_NODE],
    );
    reaches(
        &[
            policy("istio-system", "{}"),
            policy("default", "{rules: [{}]}"),
        ],
        &ALL,
    );
}

#[test]
fn it_is_about_who_is_reached() {
    let cluster = with(&policy("default", "{}"));
    assert_eq!(
        judge(&cluster, Side::Egress, (DB, MINE, Tcp, 80)),
        Verdict::Allow
    );
}

#[test]
fn sources() {
    let from = |source: &str| policy("default", &format!("{{rules: [{{from: [{source}]}}]}}"));
    // The example of "Policy enforcement using ztunnel".
    reaches(
        &[from(
            "{source: {principals: [cluster.local/ns/default/sa/curl]}}",
        )],
        &[FRONTEND, THIS_NODE],
    );
    reaches(
        &[from("{source: {principals: ['cluster.local/ns/m*']}}")],
        &[MINE, THIS_NODE],
    );
    reaches(
        &[from("{source: {principals: ['*/sa/default']}}")],
        &[MINE, OTHER, THIS_NODE],
    );
    reaches(
        &[from("{source: {principals: ['*']}}")],
        &[FRONTEND, MINE, OTHER, THIS_NODE],
    );
    reaches(
        &[from("{source: {notPrincipals: ['*/sa/default']}}")],
        &[FRONTEND, THIS_NODE, OTHER_NODE, "172.17.0.9", "172.17.1.9"],
    );
    reaches(
        &[from("{source: {namespaces: [mine, oth*]}}")],
        &[MINE, OTHER, THIS_NODE],
    );
    reaches(
        &[from(
            "{source: {namespaces: ['*'], notNamespaces: [mine], ipBlocks: [10.0.0.0/8], notIpBlocks: [10.0.0.4]}}",
        )],
        &[FRONTEND, THIS_NODE],
    );
    reaches(
        &[from(
            "{source: {namespaces: [mine]}}, {source: {ipBlocks: [172.17.0.0/24]}}",
        )],
        &[MINE, THIS_NODE, "172.17.0.9"],
    );
}

#[test]
fn service_accounts_are_of_the_policys_namespace_unless_they_name_one() {
    let from = |source: &str| {
        policy(
            "default",
            &format!("{{rules: [{{from: [{{source: {source}}}]}}]}}"),
        )
    };
    reaches(
        &[from("{serviceAccounts: [curl, default]}")],
        &[FRONTEND, THIS_NODE],
    );
    reaches(
        &[from("{serviceAccounts: [mine/default, other/curl]}")],
        &[MINE, THIS_NODE],
    );
    reaches(
        &[from("{notServiceAccounts: [curl], ipBlocks: [10.0.0.0/8]}")],
        &[MINE, OTHER, THIS_NODE],
    );
}

#[test]
fn deny_comes_before_allow() {
    let deny = policy(
        "default",
        "{action: DENY, rules: [{from: [{source: {namespaces: [mine]}}]}]}",
    );
    let allow = policy(
        "default",
        "{rules: [{from: [{source: {namespaces: [mine, other]}}]}]}",
    );
    reaches(std::slice::from_ref(&allow), &[MINE, OTHER, THIS_NODE]);
    reaches(&[deny, allow], &[OTHER, THIS_NODE]);
}

#[test]
fn operations_and_conditions() {
    let cluster = with(&policy(
        "default",
        "{rules: [{to: [{operation: {ports: ['80', '443']}}, {operation: {notPorts: ['80', '81']}}], \
         when: [{key: source.namespace, notValues: [mine]}, {key: destination.ip, values: [10.0.0.0/30]}]}]}",
    ));
    let reach = |from, protocol, port| judge(&cluster, Side::Ingress, (from, DB, protocol, port));
    use Verdict::{Allow, Deny};
    assert_eq!(
        [80, 81, 82].map(|port| reach(OTHER, Tcp, port)),
        [Allow, Deny, Allow]
    );
    assert_eq!(
        [80, 81, 82].map(|port| reach(MINE, Tcp, port)),
        [Deny, Deny, Deny]
    );
    assert_eq!(
        (reach(OTHER, Udp, 80), reach(OTHER, Udp, 81)),
        (Allow, Deny)
    );
    assert_eq!(
        reach(OTHER, Icmp, 0),
        Allow,
        "what has no port has none of them"
    );
    for (when, expected) in [
        (
            "{key: source.ip, values: [10.0.0.4]}",
            vec![OTHER, THIS_NODE],
        ),
        (
            "{key: source.principal, values: ['*/sa/curl']}",
            vec![FRONTEND, THIS_NODE],
        ),
        ("{key: destination.port, values: ['80']}", ALL.to_vec()),
        (
            "{key: destination.port, notValues: ['80']}",
            vec![THIS_NODE],
        ),
    ] {
        reaches(
            &[policy(
                "default",
                &format!("{{rules: [{{when: [{when}]}}]}}"),
            )],
            &expected,
        );
    }
}

/// "If a policy with rules matching L7 attributes [...] it will fail safe by becoming a DENY policy."
#[test]
fn what_a_proxy_would_judge_is_refused() {
    let verdicts = |policies: &[String]| {
        let cluster = with(&policies.concat());
        [FRONTEND, MINE].map(|from| judge(&cluster, Side::Ingress, (from, DB, Tcp, 80)))
    };
    use Verdict::{Allow, Deny, Layer7};
    let get = "to: [{operation: {methods: [GET]}}]";
    let curl = "from: [{source: {principals: [cluster.local/ns/default/sa/curl]}}]";
    assert_eq!(
        verdicts(&[policy(
            "default",
            &format!("{{rules: [{{{curl}, {get}}}]}}")
        )]),
        [Layer7, Deny]
    );
    assert_eq!(
        verdicts(&[policy(
            "default",
            &format!("{{rules: [{{{curl}, {get}}}, {{}}]}}")
        )]),
        [Allow, Allow],
        "another rule lets it through, whatever its method"
    );
    assert_eq!(
        verdicts(&[policy(
            "default",
            &format!("{{action: DENY, rules: [{{{curl}, {get}}}]}}")
        )]),
        [Layer7, Allow]
    );
    // The example "denies all the requests with POST method on port 8080": "all TCP traffic on port 8080 would be denied".
    let post = policy(
        "default",
        "{action: DENY, rules: [{to: [{operation: {methods: [POST], ports: ['8080']}}]}]}",
    );
    let cluster = with(&post);
    let reach = |port| judge(&cluster, Side::Ingress, (MINE, DB, Tcp, port));
    assert_eq!([8079, 8080].map(reach), [Allow, Layer7]);
    // The first example of the reference: nothing of it can be told without a proxy.
    let first = policy(
        "default",
        "{action: ALLOW, rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/curl]}}, {source: {namespaces: [test]}}], \
         to: [{operation: {methods: [GET], paths: ['/info*']}}, {operation: {methods: [POST], paths: [/data]}}], \
         when: [{key: 'request.auth.claims[iss]', values: ['https://accounts.google.com']}]}]}",
    );
    assert_eq!(verdicts(&[first]), [Layer7, Deny]);
    let custom = policy(
        "default",
        "{action: CUSTOM, provider: {name: x}, rules: [{to: [{operation: {ports: ['80']}}]}]}",
    );
    assert_eq!(verdicts(&[custom]), [Layer7, Layer7]);
    let remote = "{source: {remoteIpBlocks: [10.0.0.0/8]}}";
    assert_eq!(
        verdicts(&[policy(
            "default",
            &format!("{{rules: [{{from: [{remote}]}}]}}")
        )]),
        [Layer7, Layer7]
    );
}
