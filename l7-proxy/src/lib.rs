//! The node's Envoy: finding it, configuring it, keeping it alive.
