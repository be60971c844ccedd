//! What the control plane knows about itself.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_proto::convert;
use weft_proto::model::{Problem, Resource, Severity};
use weft_proto::resource::ResourceType;

use crate::ads::{Nack, Nacks, Store};
use crate::ca::CaStatus;

/// One moment of a control plane.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Everything that was there at the start is known, and agents are answered.
    pub synced: bool,
    /// Streams that are open now.
    pub streams: usize,
    /// Number of resources by type.
    pub resources: BTreeMap<String, usize>,
    /// What is wrong with the manifests.
    pub problems: Vec<ProblemStatus>,
    /// What nodes have refused.
    pub nacks: Vec<Nack>,
    /// How many NACKs were received since the start.
    pub nacks_total: u64,
    /// Connections and requests that were not let in, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// The CA, if this control plane is one.
    pub ca: Option<CaStatus>,
}

/// One problem, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct ProblemStatus {
    /// File and line.
    pub origin: String,
    /// "Service shop/cart".
    pub object: String,
    /// "spec.ports[0].port".
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
    /// "error" or "warning".
    pub severity: &'static str,
}

impl From<Problem> for ProblemStatus {
    fn from(problem: Problem) -> Self {
        Self {
            severity: match problem.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            origin: problem.origin,
            object: problem.object,
            field: problem.field,
            message: problem.message,
        }
    }
}

impl Status {
    pub(crate) fn of(
        store: &Store,
        nacks: &Nacks,
        refused: BTreeMap<&'static str, u64>,
        ca: Option<CaStatus>,
    ) -> Self {
        let (resources, encoded) = store.read(|snapshot| {
            let resources = ResourceType::ALL
                .map(|t| (t.to_string(), snapshot.table(t).for_all().count()))
                .into();
            let problems = snapshot.table(ResourceType::Problem).iter();
            let encoded: Vec<_> = problems.map(|(_, entry)| entry.any()).collect();
            (resources, encoded)
        });
        let mut problems: Vec<ProblemStatus> = encoded
            .iter()
            .filter_map(|any| match convert::decode(ResourceType::Problem, any) {
                Ok(Resource::Problem(problem)) => Some(problem.into()),
                _ => None,
            })
            .collect();
        problems.sort();
        Self {
            synced: store.is_synced(),
            streams: store.streams(),
            resources,
            problems,
            nacks: nacks.list(),
            nacks_total: nacks.total(),
            refused,
            ca,
        }
    }
}
