//! Which of a cluster's endpoints take new connections from this node.

use weft_proto::model::{Health, LocalityMode};

use super::{Family, NodeEndpoint};

/// Where this node stands.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Here {
    /// Name of the node.
    pub node: String,
    /// Its zone; empty while unknown, and then no endpoint is in it.
    pub zone: String,
}

impl Here {
    fn has(&self, endpoint: &NodeEndpoint, mode: LocalityMode) -> bool {
        match mode {
            LocalityMode::None => true,
            LocalityMode::PreferNode | LocalityMode::NodeOnly => {
                !self.node.is_empty() && endpoint.locality.node == self.node
            }
            LocalityMode::PreferZone => {
                !self.zone.is_empty() && endpoint.locality.zone == self.zone
            }
        }
    }
}

/// The endpoints of `family` that take new connections, in the order of `endpoints`.
///
/// * Healthy ones of the lowest priority that has any; without any, draining ones of the lowest priority that has any (as
///   kube-proxy uses serving terminating endpoints); never unhealthy ones.
/// * `PreferNode` and `PreferZone` narrow healthy ones to the near ones if there are any.
/// * `NodeOnly` looks at nothing outside this node.
#[must_use]
pub fn select<'a>(
    endpoints: &'a [NodeEndpoint],
    family: Family,
    mode: LocalityMode,
    here: &Here,
) -> Vec<&'a NodeEndpoint> {
    let usable = |e: &&NodeEndpoint| {
        Family::of(e.address.ip()) == family
            && (mode != LocalityMode::NodeOnly || here.has(e, mode))
    };
    let healthy = first_level(endpoints, usable, Health::Healthy);
    if healthy.is_empty() {
        return first_level(endpoints, usable, Health::Draining);
    }
    let near: Vec<_> = healthy
        .iter()
        .copied()
        .filter(|e| here.has(e, mode))
        .collect();
    if near.is_empty() { healthy } else { near }
}

/// Those of this health at the lowest priority that has one.
fn first_level(
    endpoints: &[NodeEndpoint],
    usable: impl Fn(&&NodeEndpoint) -> bool,
    health: Health,
) -> Vec<&NodeEndpoint> {
    let of_health = || {
        endpoints
            .iter()
            .filter(|e| e.health == health)
            .filter(&usable)
    };
    let Some(level) = of_health().map(|e| e.priority).min() else {
        return Vec::new();
    };
    of_health().filter(|e| e.priority == level).collect()
}
