//! Every kind of policy, seen by clients: whoever it lets through has an answer, all others have none; over TCP and UDP, IPv4 and
//! IPv6, on the server's node and from another; and each change of policy changes that.

use anyhow::Context;
use weft_e2e::mesh::TARGET;
use weft_e2e::reach::{Ask, hold, settle};
use weft_e2e::town::{self, by_friend, by_impostor, by_near};
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};

/// The policies in force, and whom they let through.
struct Step {
    what: &'static str,
    policies: &'static str,
    passes: fn(&Ask) -> bool,
}

/// Applies one step after the other, and at last none.
fn walk(steps: &[Step]) -> Result {
    let none = Step {
        what: "no policy",
        policies: "",
        passes: |_| true,
    };
    let mesh = town::start()?;
    let asks = town::everyone(&mesh)?;
    hold(&asks, none.passes).context("before any policy")?;
    let mut before = &none;
    for step in steps.iter().chain([&none]) {
        let changed = |ask: &&Ask| (before.passes)(ask) != (step.passes)(ask);
        let mut changed = asks.iter().filter(changed).cloned();
        let first = changed.next().context("it shows nothing");
        let first = first.context(step.what)?;
        let last = changed.next_back().unwrap_or_else(|| first.clone());
        mesh.apply("policies", step.policies)?;
        settle(&[first, last], step.passes).context(step.what)?;
        // One of several policies may be there before the others.
        eventually(LONG, || hold(&asks, step.passes)).context(step.what)?;
        before = step;
    }
    Ok(())
}

#[test]
fn network_policies() -> Result {
    walk(&[
        Step {
            what: "isolated",
            passes: |_| false,
            policies: r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec: {podSelector: {}, policyTypes: [Ingress]}
",
        },
        Step {
            what: "pods of a namespace",
            passes: by_friend,
            policies: r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec:
  podSelector: {matchLabels: {app: server}}
  ingress:
  - from: [{namespaceSelector: {matchLabels: {team: sales}}, podSelector: {matchLabels: {app: friend}}}]
",
        },
        Step {
            what: "a namespace",
            passes: |ask| !by_impostor(ask),
            policies: r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec:
  podSelector: {matchLabels: {app: server}}
  ingress:
  - from: [{namespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}}]
",
        },
        Step {
            what: "addresses but some",
            passes: by_near,
            policies: r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec:
  podSelector: {}
  ingress:
  - from:
    - ipBlock: {cidr: 10.244.0.0/16, except: [10.244.2.0/24]}
    - ipBlock: {cidr: 'fd00:244::/32', except: ['fd00:244:2::/64']}
",
        },
        Step {
            what: "a range of ports",
            passes: |ask| ask.port > TARGET,
            policies: r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec:
  podSelector: {}
  ingress:
  - ports: [{port: 8081, endPort: 8090}, {protocol: UDP, port: 8081, endPort: 8090}]
",
        },
        Step {
            what: "a named port",
            passes: |ask| ask.port == TARGET && !ask.udp,
            policies: r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec:
  podSelector: {}
  ingress:
  - ports: [{port: api}]
",
        },
        Step {
            what: "egress",
            passes: |ask| by_impostor(ask) || (by_friend(ask) && ask.udp && ask.port == TARGET),
            policies: r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: nobody, namespace: shop}
spec: {podSelector: {}, policyTypes: [Egress]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friends, namespace: shop}
spec:
  podSelector: {matchLabels: {app: friend}}
  policyTypes: [Egress]
  egress:
  - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: bank}}, podSelector: {matchLabels: {app: server}}}]
    ports: [{protocol: UDP, port: 8080}]
",
        },
        Step {
            what: "both ends",
            passes: |ask| by_friend(ask) && !ask.udp && ask.port == TARGET,
            policies: r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec:
  podSelector: {}
  ingress: [{ports: [{protocol: TCP}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: impostors, namespace: street}
spec: {podSelector: {}, policyTypes: [Egress]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: shop, namespace: shop}
spec:
  podSelector: {matchExpressions: [{key: app, operator: In, values: [friend]}]}
  policyTypes: [Egress]
  egress:
  - {ports: [{port: 8080}], to: [{ipBlock: {cidr: 10.244.1.0/24}}, {ipBlock: {cidr: 'fd00:244:1::/64'}}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: colleagues, namespace: shop}
spec:
  podSelector: {matchLabels: {app: colleague}}
  policyTypes: [Egress]
  egress: [{to: [{podSelector: {}}]}]
",
        },
    ])
}

#[test]
fn cluster_network_policies() -> Result {
    walk(&[
        Step {
            what: "the admin denies a namespace",
            passes: |ask| !by_impostor(ask),
            policies: r"
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: street}
spec:
  tier: Admin
  priority: 10
  subject: {namespaces: {matchLabels: {kubernetes.io/metadata.name: bank}}}
  ingress: [{action: Deny, from: [{namespaces: {matchLabels: {kubernetes.io/metadata.name: street}}}]}]
",
        },
        Step {
            what: "the admin accepts what a NetworkPolicy refuses",
            passes: by_friend,
            policies: r"
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: friends}
spec:
  tier: Admin
  priority: 10
  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: server}}}}
  ingress:
  - action: Accept
    from: [{pods: {namespaceSelector: {matchLabels: {team: sales}}, podSelector: {matchLabels: {app: friend}}}}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec: {podSelector: {}, policyTypes: [Ingress]}
",
        },
        Step {
            what: "the admin passes some on to a NetworkPolicy and denies the rest",
            passes: |ask| by_friend(ask) && by_near(ask),
            policies: r"
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: rest}
spec:
  tier: Admin
  priority: 20
  subject: {namespaces: {}}
  ingress: [{action: Deny, from: [{namespaces: {}}]}]
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: some}
spec:
  tier: Admin
  priority: 10
  subject: {namespaces: {}}
  ingress:
  - {action: Pass, from: [{pods: {namespaceSelector: {matchLabels: {team: sales}}, podSelector: {matchLabels: {app: friend}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec:
  podSelector: {}
  ingress: [{from: [{ipBlock: {cidr: 10.244.1.0/24}}, {ipBlock: {cidr: 'fd00:244:1::/64'}}]}]
",
        },
        Step {
            what: "the baseline denies",
            passes: |_| false,
            policies: r"
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: baseline}
spec:
  tier: Baseline
  priority: 0
  subject: {namespaces: {}}
  ingress: [{action: Deny, from: [{namespaces: {}}]}]
",
        },
        Step {
            what: "a NetworkPolicy goes before the baseline",
            passes: |ask| !by_impostor(ask),
            policies: r"
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: baseline}
spec:
  tier: Baseline
  priority: 0
  subject: {namespaces: {}}
  ingress: [{action: Deny, from: [{namespaces: {}}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec:
  podSelector: {}
  ingress: [{from: [{namespaceSelector: {matchLabels: {team: sales}}}]}]
",
        },
        Step {
            what: "egress to networks and ports",
            passes: |ask| by_impostor(ask) || !ask.udp && ask.port == TARGET,
            policies: r"
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: egress}
spec:
  tier: Admin
  priority: 0
  subject: {namespaces: {matchLabels: {team: sales}}}
  egress:
  - action: Deny
    to: [{networks: [10.244.1.0/24, 'fd00:244:1::/64']}]
    protocols: [{udp: {destinationPort: {range: {start: 1, end: 65535}}}}, {tcp: {destinationPort: {range: {start: 8081, end: 8090}}}}]
",
        },
    ])
}

#[test]
fn authorization_policies() -> Result {
    walk(&[
        Step {
            what: "a principal is allowed",
            passes: by_friend,
            policies: r"
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: server, namespace: bank}
spec:
  selector: {matchLabels: {app: server}}
  action: ALLOW
  rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/friend]}}]}]
",
        },
        Step {
            what: "a namespace is denied",
            passes: |ask| !by_impostor(ask),
            policies: r"
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: server, namespace: bank}
spec:
  action: DENY
  rules: [{from: [{source: {namespaces: [street]}}]}]
",
        },
        Step {
            what: "a principal and a port are denied",
            passes: |ask| by_impostor(ask) || (by_friend(ask) && ask.port == TARGET),
            policies: r"
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: server, namespace: bank}
spec:
  action: DENY
  rules:
  - from: [{source: {principals: ['cluster.local/ns/shop/sa/coll*']}}]
  - to: [{operation: {ports: ['8081']}}]
",
        },
        Step {
            what: "the whole mesh allows one namespace",
            passes: by_impostor,
            policies: r"
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: mesh, namespace: istio-system}
spec:
  rules: [{from: [{source: {namespaces: [street]}}]}]
",
        },
        Step {
            what: "the whole mesh allows nobody",
            passes: |_| false,
            policies: r"
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: mesh, namespace: istio-system}
spec: {}
",
        },
        Step {
            what: "the mesh denies what the namespace allows",
            passes: |ask| by_friend(ask) && by_near(ask),
            policies: r"
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: mesh, namespace: istio-system}
spec:
  action: DENY
  rules: [{from: [{source: {ipBlocks: [10.244.2.0/24, 'fd00:244:2::/64']}}]}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: server, namespace: bank}
spec:
  rules: [{from: [{source: {serviceAccounts: [shop/friend]}}]}]
",
        },
    ])
}
