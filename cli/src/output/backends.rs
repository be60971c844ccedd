//! `weft backends`.

use std::net::{IpAddr, SocketAddr};

use weft_proto::wire::admin::v1::Backend;

use super::{Style, Table};

/// One row per backend of a service port.
pub(crate) fn backends(list: &[Backend], style: Style) -> String {
    let mut table = Table::new(
        style,
        [
            "SERVICE",
            "BACKEND",
            "HEALTH",
            "TAKES NEW",
            "#WEIGHT",
            "WORKLOAD",
            "NODE",
            "ZONE",
            "#OPEN",
            "#TOTAL",
        ],
    );
    for backend in list {
        table.row([
            backend.service.clone(),
            address(backend),
            health(backend),
            if backend.selected { "yes" } else { "no" }.to_owned(),
            backend.weight.to_string(),
            backend.workload.clone(),
            backend.node.clone(),
            backend.zone.clone(),
            backend.open_connections.to_string(),
            backend.total_connections.to_string(),
        ]);
    }
    table.text()
}

/// As the control plane has it, and for how long the kernel passes it over all the same.
fn health(backend: &Backend) -> String {
    match backend.ejected_for_ms.div_ceil(1000) {
        0 => backend.health.clone(),
        seconds => format!("{}, ejected {seconds}s", backend.health),
    }
}

fn address(backend: &Backend) -> String {
    let port = u16::try_from(backend.port).ok();
    match (backend.address.parse::<IpAddr>(), port) {
        (Ok(ip), Some(port)) => format!("{}/{}", SocketAddr::new(ip, port), backend.protocol),
        _ => format!("{} {}/{}", backend.address, backend.port, backend.protocol),
    }
}
