//! Clients outside the cluster: node ports, external addresses and load balancers' addresses, as kube-proxy serves them.

mod bad_days;
mod layer7;
mod reach;
mod refused;
mod site;
