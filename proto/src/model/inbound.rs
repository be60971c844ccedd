//! Where a node's Envoy stands in for pods, and what it asks of their requests.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::policy::Rule;

/// Local pods in whose place a node's Envoy takes connections, of one address family.
///
/// Wire form: `envoy.config.listener.v3.Listener` with one filter chain for each pod. Only that node's Envoy takes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inbound {
    /// Name of the node.
    pub node: String,
    /// The address family of all pods.
    pub ipv6: bool,
    /// Guard of each address, by its resource name.
    pub pods: BTreeMap<IpAddr, String>,
}

impl Inbound {
    /// Resource name.
    #[must_use]
    pub fn name(&self) -> String {
        let family = if self.ipv6 { '6' } else { '4' };
        format!("weft.inbound/{}#{family}", self.node)
    }
}

/// What is asked of each request to a pod: its layer 7 policies. First all that refuse, then those that allow.
///
/// Wire form: `envoy.config.route.v3.RouteConfiguration`, whose route overrides the RBAC filters of [`Inbound`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// Resource name.
    pub name: String,
    /// Refused is what one of these matches.
    pub deny: Rules,
    /// Refused is what none of these matches. `None`: nothing is.
    pub allow: Option<Rules>,
    /// Told of, and not refused: what one of these matches.
    pub audited_deny: Rules,
    /// Told of, and not refused: what none of these matches.
    pub audited_allow: Option<Rules>,
}

/// Rules by the name under which people find them: object and rule. All conditions in them are such as Envoy can tell: about addresses,
/// ports, paths and headers.
pub type Rules = BTreeMap<String, Arc<Rule>>;
