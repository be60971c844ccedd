//! One look at the agent, for metrics.

use super::{AdminService, snapshot};
use crate::engine::Engine;
use crate::metrics::{SERVICE_SERIES, ServiceLabel, Snapshot};

/// Everything that metrics show and that is not counted where it happens; `None`: the engine has stopped.
pub(crate) async fn gather(admin: &AdminService) -> Option<Snapshot> {
    let engine = &admin.engine;
    let mut summary = engine.query(Engine::summary).await.ok()?;
    let facts = admin.facts.snapshot();
    let usage = admin.observed.usage(&facts.counters());
    summary.maps.extend(usage);
    let mut shot = snapshot(&facts, &admin.xds.snapshot(), &summary);
    shot.identities = admin.identities.snapshot().summary();
    let mut after: Option<String> = None;
    while shot.services.len() < SERVICE_SERIES {
        let from = after.take();
        let page = engine
            .query(move |e| e.services(from.as_deref()))
            .await
            .ok()?;
        for row in page.rows {
            let label = ServiceLabel {
                service: row.service,
                port: row.port.to_string(),
                protocol: row.protocol,
            };
            let limits = row.limits.map(|limits| (label.clone(), limits));
            shot.limits.extend(limits);
            let (open, ever) = (row.open_connections, row.total_connections);
            shot.services.push((label, open, ever));
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Some(shot)
}
