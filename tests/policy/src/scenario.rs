//! A cluster's life: what it was, and what it became.

use std::fmt;

use crate::connection::Connection;
use crate::evaluate::{DefaultPolicy, Judgement, Side, View};
use crate::generate::{self, NODE, Random};
use crate::object::{Cluster, Document};
use crate::yaml;

/// One cluster after the other, on a node that has to keep up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The node's option.
    pub default: DefaultPolicy,
    /// The cluster at first and after each change.
    pub steps: Vec<Cluster>,
}

impl Scenario {
    /// A cluster and so many changes.
    #[must_use]
    pub fn random(random: &mut Random, default: DefaultPolicy, changes: usize) -> Self {
        let mut cluster = generate::cluster(random);
        let mut steps = vec![cluster.clone()];
        for _ in 0..changes {
            generate::change(random, &mut cluster);
            steps.push(cluster.clone());
        }
        Self { default, steps }
    }

    /// The node's view after the last change.
    ///
    /// # Panics
    /// Without any step.
    #[must_use]
    pub fn last(&self) -> View<'_> {
        self.view(self.steps.len() - 1)
    }

    /// The node's view at a step.
    #[must_use]
    pub fn view(&self, step: usize) -> View<'_> {
        View {
            cluster: &self.steps[step],
            node: NODE,
            default: self.default,
        }
    }
}

/// Manifests of each step, to be put into a folder one after the other.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# On node {NODE}, default policy {:?}", self.default)?;
        let mut before: Vec<Document> = Vec::new();
        for (number, cluster) in self.steps.iter().enumerate() {
            let documents = cluster.documents();
            if number > 0 {
                writeln!(f, "# Then, in place of or besides the above:")?;
            }
            for document in documents.iter().filter(|d| !before.contains(d)) {
                let value = serde_json::to_value(document).map_err(|_| fmt::Error)?;
                write!(f, "---\n{}", yaml::text(&value))?;
            }
            for gone in before
                .iter()
                .filter(|b| !documents.iter().any(|d| d.is_named_as(b)))
            {
                let (kind, namespace, name) = gone.name();
                writeln!(f, "# Removed: {kind} {namespace}/{name}")?;
            }
            before = documents;
        }
        Ok(())
    }
}

/// Where a node and the specifications differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// At which end.
    pub side: Side,
    /// About what.
    pub connection: Connection,
    /// By the specifications.
    pub expected: Option<Judgement>,
    /// By the node.
    pub actual: String,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            side,
            connection,
            expected,
            actual,
        } = self;
        let expected = match expected {
            None => "not judged here".to_owned(),
            Some(Judgement { verdict, audited }) => {
                format!("{verdict:?}{}", if *audited { ", audited" } else { "" })
            }
        };
        write!(
            f,
            "# {side:?} of {connection}\n#   specifications: {expected}\n#   node:           {actual}"
        )
    }
}
