//! Spreads connections evenly over Envoy's workers.

use envoy_types::pb::envoy::config::listener::v3::listener::{
    ConnectionBalanceConfig,
    connection_balance_config::{BalanceType, ExactBalance},
};

/// By their number, under a lock for each new connection. Otherwise the kernel picks the worker by a hash: of the few connections between two
/// pods, and of the one or two that carry all of a node's tunnels, most may come to one worker, while the others have nothing to do.
///
/// For listeners that handle connections; one that hands them over to others needs none.
pub(super) fn evenly() -> Option<ConnectionBalanceConfig> {
    Some(ConnectionBalanceConfig {
        balance_type: Some(BalanceType::ExactBalance(ExactBalance {})),
    })
}
