//! Objects as clients of the API send them.

use serde_json::{Value, json};

/// Where services of a namespace are.
pub fn services(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/services")
}

/// Where endpoint slices of a namespace are.
pub fn slices(namespace: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
}

/// A namespace.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A service with one port, 80.
pub fn service(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"clusterIP": address, "ports": [{"port": 80, "targetPort": 8080}]},
    })
}

/// The endpoints of a service.
pub fn slice(service: &str, addresses: &[&str]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": format!("{service}-1"), "labels": {"kubernetes.io/service-name": service}},
        "ports": [{"port": 8080, "protocol": "TCP"}],
        "endpoints": addresses.iter().map(|a| json!({"addresses": [a]})).collect::<Vec<_>>(),
    })
}

/// Rights to list and watch `resources` in each of their API groups, for the user "weft".
pub fn role(resources: &[(&str, &[&str])]) -> Value {
    let rule = |(group, names): &(&str, &[&str])| json!({"apiGroups": [group], "resources": names, "verbs": ["get", "list", "watch"]});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "weft"},
        "rules": resources.iter().map(rule).collect::<Vec<_>>(),
    })
}

/// Gives the role "weft" to the user "weft".
pub fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "weft"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "weft"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "weft"}],
    })
}
