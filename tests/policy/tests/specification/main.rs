//! The evaluator against the examples and sentences of the specifications.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod authorization_policy;
mod cluster_network_policy;
mod network_policy;

use weft_policy_test::connection::{Connection, Protocol};
use weft_policy_test::evaluate::{DefaultPolicy, Side, Verdict, View};
use weft_policy_test::object::{Cluster, parse};

/// The cluster that the examples are tried in. Its node is `n1`.
const WORLD: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: default}
---
apiVersion: v1
kind: Namespace
metadata: {name: mine, labels: {project: myproject}}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {role: worker}}
status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {role: control}}
status: {addresses: [{type: InternalIP, address: 192.168.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: default, name: db, labels: {role: db}}
spec:
  nodeName: n1
  containers: [{name: db, ports: [{name: sql, containerPort: 6379}, {name: dns, containerPort: 53, protocol: UDP}]}]
status: {podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: default, name: frontend, labels: {role: frontend}}
spec: {nodeName: n1, serviceAccountName: curl}
status: {podIPs: [{ip: 10.0.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: mine, name: any}
spec: {nodeName: n1}
status: {podIPs: [{ip: 10.0.0.3}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: other, name: frontend, labels: {role: frontend}}
spec: {nodeName: n1}
status: {podIPs: [{ip: 10.0.0.4}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: mine, name: on-the-host, labels: {role: frontend}}
spec: {nodeName: n2, hostNetwork: true}
status: {podIPs: [{ip: 192.168.0.2}]}
";

const DB: &str = "10.0.0.1";
const FRONTEND: &str = "10.0.0.2";
const MINE: &str = "10.0.0.3";
const OTHER: &str = "10.0.0.4";
const THIS_NODE: &str = "192.168.0.1";
const OTHER_NODE: &str = "192.168.0.2";

/// [`WORLD`] with these policies.
fn with(policies: &str) -> Cluster {
    let mut documents = parse(WORLD).unwrap();
    documents.extend(parse(policies).unwrap_or_else(|error| panic!("{error}: {policies}")));
    documents.into_iter().collect()
}

fn judge(cluster: &Cluster, side: Side, connection: (&str, &str, Protocol, u16)) -> Verdict {
    judge_by(cluster, DefaultPolicy::Allow, side, connection)
}

fn judge_by(
    cluster: &Cluster,
    default: DefaultPolicy,
    side: Side,
    (source, destination, protocol, destination_port): (&str, &str, Protocol, u16),
) -> Verdict {
    let view = View {
        cluster,
        node: "n1",
        default,
    };
    let connection = Connection {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol,
        source_port: 40000,
        destination_port,
    };
    view.judge(side, &connection).unwrap().verdict
}

/// The first address that may open TCP to the second at the port, of all that the world has and one outside it.
fn who_reaches(
    cluster: &Cluster,
    destination: &str,
    protocol: Protocol,
    port: u16,
) -> Vec<&'static str> {
    let all = [
        DB,
        FRONTEND,
        MINE,
        OTHER,
        THIS_NODE,
        OTHER_NODE,
        "172.17.0.9",
        "172.17.1.9",
    ];
    all.into_iter()
        .filter(|source| *source != destination)
        .filter(|source| {
            judge(
                cluster,
                Side::Ingress,
                (source, destination, protocol, port),
            ) == Verdict::Allow
        })
        .collect()
}
