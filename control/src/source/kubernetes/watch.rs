//! One kind, in one namespace or in all of them: listed, then watched.

use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::sync::mpsc;

use super::faults::{self, Fault};
use super::seen::Seen;
use crate::object::{Kind, ObjectName, ObjectRef};
use crate::source::{Event, Events};

/// Events taken together at most.
const CHUNK: usize = 256;
/// Failures in a row after which what was seen last is not believed to be a place to go on from.
const LIST_AGAIN_AFTER: u32 = 5;

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) kind: Kind,
    /// `None`: all, or a kind that has none.
    pub(super) namespace: Option<String>,
}

/// How a watch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All that is there was told at least once.
    Listed,
    /// It may not be read.
    Forbidden,
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The server does not know the kind (any more).
    NotFound,
    /// Nobody listens.
    Closed,
}

/// A watch, with what it has told.
pub(super) struct Watch {
    pub(super) target: Target,
    pub(super) resource: ApiResource,
    pub(super) client: Client,
    pub(super) events: mpsc::Sender<Events>,
    pub(super) progress: mpsc::UnboundedSender<(Target, Progress)>,
    /// Stays over watches: the next list says what went in between.
    pub(super) seen: Seen,
    /// Whether nothing may be published before it was listed.
    pub(super) essential: bool,
    /// What was told to be wrong.
    pub(super) told: bool,
    pub(super) failures: u32,
}

impl Watch {
    /// Goes on until the kind is gone or nobody listens.
    pub(super) async fn run(mut self) -> (Self, Ended) {
        loop {
            let api = self.api();
            let stream = watcher(api, watcher::Config::default()).ready_chunks(CHUNK);
            if let Some(ended) = self.follow(pin!(stream)).await {
                return (self, ended);
            }
        }
    }

    fn api(&self) -> Api<DynamicObject> {
        let client = self.client.clone();
        match &self.target.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        }
    }

    /// `None`: list again.
    async fn follow(
        &mut self,
        mut stream: impl Stream<Item = Vec<watcher::Result<watcher::Event<DynamicObject>>>> + Unpin,
    ) -> Option<Ended> {
        while let Some(chunk) = stream.next().await {
            let mut events = Events::new();
            let mut error = None;
            let mut listed = false;
            for event in chunk {
                match event {
                    Ok(event) => listed |= self.take(event, &mut events),
                    Err(e) => error = Some(e),
                }
            }
            if !events.is_empty() && self.events.send(events).await.is_err() {
                return Some(Ended::Closed);
            }
            if listed {
                // Nobody listens only when all of it ends.
                let _ = self.progress.send((self.target.clone(), Progress::Listed));
            }
            let Some(error) = error else { continue };
            match self.fail(&error).await {
                Next::GoOn => {}
                Next::ListAgain => return None,
                Next::End(ended) => return Some(ended),
            }
        }
        None
    }

    /// Whether a list has come to its end.
    fn take(&mut self, event: watcher::Event<DynamicObject>, events: &mut Events) -> bool {
        match event {
            watcher::Event::Init => self.seen.begin_list(),
            watcher::Event::InitApply(object) => {
                let value = self.value(object);
                events.extend(self.seen.apply(self.target.kind, value));
            }
            watcher::Event::Apply(object) => {
                let value = self.value(object);
                events.extend(self.seen.apply(self.target.kind, value));
                self.recover(events);
            }
            watcher::Event::Delete(object) => {
                let namespace = object.namespace().unwrap_or_default();
                let reference = ObjectRef {
                    kind: self.target.kind,
                    name: ObjectName::new(namespace, object.name_any()),
                };
                events.extend(self.seen.delete(&reference));
                self.recover(events);
            }
            watcher::Event::InitDone => {
                events.extend(self.seen.end_list());
                self.recover(events);
                return true;
            }
        }
        false
    }

    /// As a manifest would say it.
    fn value(&self, mut object: DynamicObject) -> Value {
        object.metadata.managed_fields = None;
        let mut value = object.data;
        if let Value::Object(map) = &mut value {
            let text = |s: &str| Value::String(s.to_owned());
            map.insert("apiVersion".to_owned(), text(&self.resource.api_version));
            map.insert("kind".to_owned(), text(&self.resource.kind));
            // Metadata is text, numbers and maps of text: it has a JSON form.
            let metadata = serde_json::to_value(&object.metadata).unwrap_or_default();
            map.insert("metadata".to_owned(), metadata);
        }
        value
    }

    fn recover(&mut self, events: &mut Events) {
        self.failures = 0;
        if std::mem::take(&mut self.told) {
            events.push(Event::Problems(self.key(), Vec::new()));
        }
    }

    fn key(&self) -> String {
        let namespace = self.target.namespace.as_deref().unwrap_or_default();
        format!("{}/{namespace}/{}", faults::ORIGIN, self.resource.plural)
    }

    async fn fail(&mut self, error: &watcher::Error) -> Next {
        self.failures = self.failures.saturating_add(1);
        let name = faults::resource(&self.resource.plural, &self.resource.group);
        tracing::debug!(resource = name, failures = self.failures, %error, "watching failed");
        let namespace = self.target.namespace.as_deref();
        let problem = match Fault::of(error) {
            Fault::NotFound => return Next::End(Ended::NotFound),
            Fault::Expired => None,
            Fault::Forbidden(verb) => {
                let forbidden = (self.target.clone(), Progress::Forbidden);
                let _ = self.progress.send(forbidden);
                Some(faults::forbidden(verb, &name, namespace, self.essential))
            }
            // Connections end now and then; twice in a row is a failure.
            Fault::Trouble if self.failures < 2 => None,
            Fault::Trouble => Some(faults::unreachable(&cause(error))),
        };
        if let Some(problem) = problem {
            self.told = true;
            let event = Event::Problems(self.key(), vec![problem]);
            if self.events.send(vec![event]).await.is_err() {
                return Next::End(Ended::Closed);
            }
        }
        self.pause().await;
        let expired = Fault::of(error) == Fault::Expired;
        if expired || self.failures.is_multiple_of(LIST_AGAIN_AFTER) {
            Next::ListAgain
        } else {
            Next::GoOn
        }
    }

    async fn pause(&self) {
        let wait: Duration = faults::wait(self.failures);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.events.closed() => {}
        }
    }
}

enum Next {
    GoOn,
    ListAgain,
    End(Ended),
}

/// The innermost cause, which has no part that differs from one attempt to the next.
fn cause(error: &watcher::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
