//! `weft workloads`.

use weft_proto::wire::admin::v1::Workload;

use super::{Style, Table};

/// One row per pod or node.
pub(crate) fn workloads(list: &[Workload], style: Style) -> String {
    let mut table = Table::new(
        style,
        [
            "KIND",
            "WORKLOAD",
            "ADDRESSES",
            "NODE",
            "ZONE",
            "SERVICE ACCOUNT",
            "LOCAL",
        ],
    );
    for workload in list {
        let addresses = table.list(&workload.addresses);
        table.row([
            kind(workload),
            name(workload),
            addresses,
            workload.node.clone(),
            workload.zone.clone(),
            workload.service_account.clone(),
            if workload.local { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table.text()
}

/// `namespace/name`, or the name alone where there is no namespace.
pub(crate) fn name(workload: &Workload) -> String {
    if workload.namespace.is_empty() {
        workload.name.clone()
    } else {
        format!("{}/{}", workload.namespace, workload.name)
    }
}

fn kind(workload: &Workload) -> String {
    if workload.host_network {
        format!("{} (host network)", workload.kind)
    } else {
        workload.kind.clone()
    }
}
