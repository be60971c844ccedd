//! What things are called and numbered.

pub(super) const NAMESPACES: [&str; 4] = ["shop", "shop-2", "pay", "istio-system"];
pub(super) const ACCOUNTS: [&str; 3] = ["default", "web", "web-2"];
/// Namespaces and pods share keys, so that a selector of one does not go for the other unnoticed.
pub(super) const KEYS: [&str; 3] = ["app", "tier", "example.com/env"];
pub(super) const VALUES: [&str; 4] = ["a", "b", "ab", ""];
pub(super) const PORT_NAMES: [&str; 4] = ["http", "dns", "metrics", "a"];
/// Names whose order differs with what is taken for the end of a name.
pub(super) const POLICIES: [&str; 8] = ["a", "a-b", "a.b", "a0", "b", "b1", "c", "x-y.z"];
pub(super) const PORTS: [u16; 14] = [
    1, 53, 79, 80, 81, 443, 1024, 8079, 8080, 8081, 32767, 32768, 65534, 65535,
];
