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
            backend.health.clone(),
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

fn address(backend: &Backend) -> String {
    let port = u16::try_from(backend.port).ok();
    match (backend.address.parse::<IpAddr>(), port) {
        (Ok(ip), Some(port)) => format!("{}/{}", SocketAddr::new(ip, port), backend.protocol),
        _ => format!("{} {}/{}", backend.address, backend.port, backend.protocol),
    }
}
