//! Writes what differs, as long as this replica leads.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::board::{Board, Verdict};
use super::events::Events;
use super::lease::Candidate;
use super::{CONTROLLER, conditions};
use crate::object::{Kind, Subject};
use crate::source::kubernetes::resource;

/// Changes that come together are written together.
const GATHER: Duration = Duration::from_millis(200);
/// After a failure.
const RETRY: Duration = Duration::from_secs(5);

/// Writes statuses and Events until `drain` is cancelled.
pub(crate) async fn run(client: Client, board: Arc<Board>, drain: CancellationToken) {
    let (leads, mut leading) = watch::channel(false);
    let candidate = Candidate::new(client.clone()).run(leads, drain.clone());
    let mut writer = Writer {
        events: Events::new(client.clone()),
        client,
        board,
        said: HashSet::new(),
    };
    let write = async {
        while leading.wait_for(|leads| *leads).await.is_ok() {
            writer.board.all_again();
            tokio::select! {
                () = writer.write() => {}
                _ = leading.wait_for(|leads| !*leads) => {}
            }
        }
    };
    tokio::join!(candidate, write);
}

struct Writer {
    client: Client,
    board: Arc<Board>,
    events: Events,
    /// Failures that were said.
    said: HashSet<String>,
}

impl Writer {
    async fn write(&mut self) {
        loop {
            self.board.changed().await;
            tokio::time::sleep(GATHER).await;
            let mut failed = Vec::new();
            for verdict in self.board.next() {
                if let Err(error) = self.write_one(&verdict).await {
                    self.say(verdict.reference.kind, &error);
                    failed.push(verdict.reference);
                }
            }
            if !failed.is_empty() {
                tokio::time::sleep(RETRY).await;
            }
            for reference in failed {
                self.board.again(reference);
            }
        }
    }

    async fn write_one(&mut self, verdict: &Verdict) -> kube::Result<()> {
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
        if let (Some(subject), Some(status)) = (
            &verdict.subject,
            conditions::status(verdict, &now.to_string()),
        ) {
            self.patch(verdict, subject, status).await?;
        }
        self.events.tell(verdict).await
    }

    async fn patch(&self, verdict: &Verdict, subject: &Subject, status: Value) -> kube::Result<()> {
        let name = &verdict.reference.name;
        let kind = verdict.reference.kind;
        let resource = resource(&subject.api_version, kind);
        let api: Api<DynamicObject> = if kind.is_namespaced() {
            Api::namespaced_with(self.client.clone(), &name.namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        };
        let mut patch = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name.name.as_ref()},
            "status": status,
        });
        if matches!(kind, Kind::HTTPRoute | Kind::GRPCRoute) {
            // The list has what other controllers say as well: only if that is still what was seen.
            patch["metadata"]["resourceVersion"] = json!(subject.resource_version);
        }
        let parameters = PatchParams::apply(CONTROLLER).force();
        match api
            .patch_status(&name.name, &parameters, &Patch::Apply(patch))
            .await
        {
            // It is gone, or has changed: then there is news of it on the way.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            result => result.map(drop),
        }
    }

    fn say(&mut self, kind: Kind, error: &kube::Error) {
        let text = format!("cannot write what becomes of {}: {error}", kind.as_str());
        if self.said.len() < 100 && self.said.insert(text.clone()) {
            tracing::warn!("{text}");
        }
    }
}
