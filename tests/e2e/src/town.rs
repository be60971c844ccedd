//! The pods that policies are tried on: one server, and clients of three kinds, each on its node and on another.
//!
//! | pods | namespace | label `app`, service account | nodes |
//! |---|---|---|---|
//! | `server` | `bank` | `server` | n1 |
//! | `friend-near`, `friend-far` | `shop` | `friend` | n1, n2 |
//! | `colleague-near`, `colleague-far` | `shop` | `colleague` | n1, n2 |
//! | `impostor-near`, `impostor-far` | `street` | `friend` and `impostor` | n1, n2 |
//!
//! Namespace `shop` has the label `team: sales`. The server's TCP port 8080 is called `api`.

use serde_json::json;
use weft_lab::{Lab, LabBuilder, PodSpec, ServeOptions, WeftOptions};

use crate::Result;
use crate::mesh::{Mesh, TARGET};
use crate::reach::{Ask, asks, asks_at};

/// The server.
pub const SERVER: &str = "server";
/// All clients.
pub const CLIENTS: [&str; 6] = [
    "friend-near",
    "friend-far",
    "colleague-near",
    "colleague-far",
    "impostor-near",
    "impostor-far",
];
/// Another port of the server.
pub const OTHER_PORT: u16 = TARGET + 1;

fn builder() -> LabBuilder {
    let server = PodSpec::new(SERVER, "n1")
        .namespace("bank")
        .service_account(SERVER)
        .label("app", SERVER)
        .port("api", TARGET);
    let mut lab = Lab::builder().node("n1").node("n2").pod(server);
    for (kind, namespace, app) in [
        ("friend", "shop", "friend"),
        ("colleague", "shop", "colleague"),
        ("impostor", "street", "friend"),
    ] {
        for (place, node) in [("near", "n1"), ("far", "n2")] {
            let pod = PodSpec::new(format!("{kind}-{place}"), node)
                .namespace(namespace)
                .service_account(kind)
                .label("app", app);
            lab = lab.pod(pod);
        }
    }
    lab
}

/// A mesh with all of them, and the server serving.
///
/// # Errors
/// As [`Mesh::start`].
pub fn start() -> Result<Mesh> {
    start_with(&WeftOptions::default())
}

/// As [`start`], with options for `weft up`.
///
/// # Errors
/// As there.
pub fn start_with(options: &WeftOptions) -> Result<Mesh> {
    let mut mesh = Mesh::start_with(builder(), options)?;
    let shop = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"team": "sales"}},
    });
    mesh.apply("namespace-shop", &shop.to_string())?;
    let options = [TARGET, OTHER_PORT]
        .iter()
        .fold(ServeOptions::default(), |o, p| o.and_tcp(*p).and_udp(*p));
    mesh.serve_with(&[SERVER], &options)?;
    Ok(mesh)
}

/// Every client asks the server in every way; the friends also at [`OTHER_PORT`].
///
/// # Errors
/// When a pod is missing.
pub fn everyone(mesh: &Mesh) -> Result<Vec<Ask>> {
    let mut all = asks(mesh, &CLIENTS, SERVER)?;
    let friends = ["friend-near", "friend-far"];
    all.extend(asks_at(mesh, &friends, SERVER, OTHER_PORT)?);
    Ok(all)
}

/// Lets friends in to the server, and nobody else.
pub const FRIENDS_ONLY: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: bank}
spec:
  podSelector: {matchLabels: {app: server}}
  ingress:
  - from: [{namespaceSelector: {matchLabels: {team: sales}}, podSelector: {matchLabels: {app: friend}}}]
";

/// Whether a friend asks.
#[must_use]
pub fn by_friend(ask: &Ask) -> bool {
    ask.client().starts_with("friend")
}

/// Whether an impostor asks.
#[must_use]
pub fn by_impostor(ask: &Ask) -> bool {
    ask.client().starts_with("impostor")
}

/// Whether the client is on the server's node.
#[must_use]
pub fn by_near(ask: &Ask) -> bool {
    ask.client().ends_with("near")
}
