//! `weft services`.

use weft_proto::wire::admin::v1::Service;

use super::{Style, Table};

/// One row per service port.
pub(crate) fn services(list: &[Service], style: Style) -> String {
    let titles = [
        "SERVICE",
        "PORT",
        "ADDRESSES",
        "POLICY",
        "BACKENDS",
        "#OPEN",
        "#TOTAL",
    ];
    let mut table = Table::new(style, titles);
    for service in list {
        let addresses = table.list(&service.addresses);
        table.row([
            service.service.clone(),
            port(service),
            addresses,
            policy(service),
            backends(service),
            open(service),
            service.total_connections.to_string(),
        ]);
    }
    table.text()
}

/// Against the limit, where there is one.
fn open(service: &Service) -> String {
    let open = service.open_connections;
    match service.limits.map(|limits| limits.max_connections) {
        Some(most) if most > 0 => format!("{open} of {most}"),
        _ => open.to_string(),
    }
}

/// How many take connections, and how many others there are.
fn backends(service: &Service) -> String {
    let ejected = service.limits.map_or(0, |limits| limits.ejected);
    let others = [
        (ejected, "ejected"),
        (service.draining, "draining"),
        (service.unhealthy, "unhealthy"),
    ];
    let mut text = service.ready.to_string();
    for (count, kind) in others.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!(", {count} {kind}"));
    }
    text
}

fn port(service: &Service) -> String {
    let port = format!("{}/{}", service.port, service.protocol);
    if service.port_name.is_empty() {
        port
    } else {
        format!("{port} ({})", service.port_name)
    }
}

/// What departs from the defaults stands beside the policy.
fn policy(service: &Service) -> String {
    let mut text = service.policy.clone();
    if service.side == "outside" {
        text.push_str(" outside");
    }
    if !matches!(service.locality.as_str(), "" | "None") {
        text.push_str(&format!(" {}", service.locality));
    }
    if service.affinity_seconds > 0 {
        text.push_str(&format!(" ClientIP {}s", service.affinity_seconds));
    }
    text
}
