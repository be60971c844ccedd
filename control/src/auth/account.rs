//! Service account tokens of Kubernetes: the API server says whose they are, and which node his pod runs on.
//!
//! Projected for this audience, so that a token for something else is none here, and bound to the agent's pod, so that it ends with
//! it. <https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-tokens>

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};

use super::{Authenticator, Peer, Refused};
use crate::source::kubernetes::Kubernetes;

/// For whom agents' tokens are made.
pub const AUDIENCE: &str = "weft.io/control";
const NODE: &str = "authentication.kubernetes.io/node-name";
const POD: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// Lets in the pods of one service account, each as the agent of its node.
pub struct AgentAccount {
    client: Client,
    namespace: String,
    user: String,
}

impl fmt::Debug for AgentAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AgentAccount").field(&self.user).finish()
    }
}

impl AgentAccount {
    /// The service account `name` in `namespace`.
    #[must_use]
    pub fn new(kubernetes: &Kubernetes, namespace: &str, name: &str) -> Self {
        Self {
            client: kubernetes.client(),
            namespace: namespace.to_owned(),
            user: format!("system:serviceaccount:{namespace}:{name}"),
        }
    }

    async fn review(&self, token: &str) -> Result<Peer, Refused> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![AUDIENCE.to_owned()]),
                token: Some(token.to_owned()),
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let status = answer.map_err(|e| unavailable(&e))?.status;
        let extra = self.accept(status.unwrap_or_default())?;
        let node = match first(&extra, NODE) {
            Some(node) => Some(node.to_owned()),
            None => self.node_of_pod(&extra).await?,
        };
        node.filter(|node| !node.is_empty())
            .map(|node| Peer::Node(Arc::from(node)))
            .ok_or_else(|| self.refusal("it is bound to no pod that runs on a node"))
    }

    /// What else the server knows of the token, if it is one of ours.
    fn accept(&self, status: TokenReviewStatus) -> Result<BTreeMap<String, Vec<String>>, Refused> {
        if status.authenticated != Some(true) {
            return Err(self.refusal("the API server does not know it, or it has expired"));
        }
        // A server that does not check audiences names none.
        let audiences = status.audiences.unwrap_or_default();
        if !audiences.iter().any(|audience| audience == AUDIENCE) {
            return Err(self.refusal("it is for another audience"));
        }
        let user = status.user.unwrap_or_default();
        if user.username.as_deref() != Some(&self.user) {
            return Err(self.refusal("it is somebody else's"));
        }
        Ok(user.extra.unwrap_or_default())
    }

    /// Before 1.30, a token does not name its node.
    async fn node_of_pod(
        &self,
        extra: &BTreeMap<String, Vec<String>>,
    ) -> Result<Option<String>, Refused> {
        let (Some(name), Some(uid)) = (first(extra, POD), first(extra, POD_UID)) else {
            return Ok(None);
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = pods.get_opt(name).await.map_err(|e| unavailable(&e))?;
        let pod = pod.filter(|pod| pod.metadata.uid.as_deref() == Some(uid));
        Ok(pod.and_then(|pod| pod.spec?.node_name))
    }

    fn refusal(&self, why: &str) -> Refused {
        Refused::Account(format!(
            "{why}; a token of {} for the audience {AUDIENCE} is expected",
            self.user
        ))
    }
}

impl Authenticator for AgentAccount {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Peer, Refused>> {
        self.review(token).boxed()
    }
}

fn first<'a>(extra: &'a BTreeMap<String, Vec<String>>, key: &str) -> Option<&'a str> {
    extra.get(key)?.first().map(String::as_str)
}

fn unavailable(error: &kube::Error) -> Refused {
    tracing::error!("agents' tokens cannot be reviewed: {error}");
    Refused::Unavailable("see the control plane's log".to_owned())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;

    fn status(authenticated: bool, audience: &str, user: &str) -> TokenReviewStatus {
        TokenReviewStatus {
            authenticated: Some(authenticated),
            audiences: Some(vec![audience.to_owned()]),
            user: Some(UserInfo {
                username: Some(user.to_owned()),
                ..UserInfo::default()
            }),
            ..TokenReviewStatus::default()
        }
    }

    #[tokio::test]
    async fn only_the_agents_own_tokens_pass() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let account = AgentAccount {
            client: Client::try_from(config).unwrap(),
            namespace: "weft-system".to_owned(),
            user: "system:serviceaccount:weft-system:weft-agent".to_owned(),
        };
        let ours = "system:serviceaccount:weft-system:weft-agent";
        assert!(account.accept(status(true, AUDIENCE, ours)).is_ok());
        for (authenticated, audience, user) in [
            (false, AUDIENCE, ours),
            (true, "https://kubernetes.default.svc", ours),
            (true, AUDIENCE, "system:serviceaccount:shop:weft-agent"),
            (true, AUDIENCE, "weft-agent"),
        ] {
            let answer = account.accept(status(authenticated, audience, user));
            assert!(matches!(answer, Err(Refused::Account(_))), "{user}");
        }
        assert!(account.accept(TokenReviewStatus::default()).is_err());
        // A server that does not answer is no proof.
        let answer = account.authenticate("token").await;
        assert!(matches!(answer, Err(Refused::Unavailable(_))), "{answer:?}");
    }
}
