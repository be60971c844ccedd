//! Who is at the other end, and what he may claim.

mod account;
mod join;
mod layer;
mod refusals;

use std::sync::Arc;

use futures::future::BoxFuture;

pub use account::{AUDIENCE, AgentAccount};
pub use join::JoinToken;
pub use layer::{Authenticate, Gate};
pub use refusals::Refusals;

/// Suffix of `node.id` on streams of a node's Envoy.
const ENVOY: &str = "/envoy";

/// What was proved about the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A member of the mesh, whichever node it says it is: that of a join token, of this machine, of a lab.
    AnyNode,
    /// The agent of this node.
    Node(Arc<str>),
}

/// A node that somebody said he is, and is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this token is node {proved}'s; {claimed:?} cannot be asked for with it")]
pub struct WrongNode {
    proved: Arc<str>,
    claimed: String,
}

impl Peer {
    /// Whether it may be the node `name`.
    ///
    /// # Errors
    /// When it has proved to be another.
    pub fn claim(&self, name: &str) -> Result<(), WrongNode> {
        match self {
            Self::Node(node) if **node != *name => Err(WrongNode {
                proved: Arc::clone(node),
                claimed: name.chars().take(256).collect(),
            }),
            _ => Ok(()),
        }
    }
}

/// The node of a `node.id`: agents have the node's name, their Envoys that and a suffix.
#[must_use]
pub fn node_name(id: &str) -> &str {
    id.strip_suffix(ENVOY).unwrap_or(id)
}

/// A token that proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// None was sent.
    #[error("no token: give the agent the mesh's join token (--join-token-file)")]
    Missing,
    /// It is not the one.
    #[error(
        "this token is not valid here: compare the join token files of agent and control plane"
    )]
    Wrong,
    /// It is not of the agents' service account, for this reason.
    #[error("this token is not valid here: {0}")]
    Account(String),
    /// It cannot be checked now, for this reason.
    #[error("tokens cannot be checked now: {0}")]
    Unavailable(String),
}

/// Tells from a bearer token who has it.
pub trait Authenticator: Send + Sync {
    /// What the token proves.
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Peer, Refused>>;
}
