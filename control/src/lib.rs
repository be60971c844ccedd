//! Control plane: cluster state to xDS.
