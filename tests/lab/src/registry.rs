//! Which names and addresses of a lab are taken, and which may be.

use std::collections::{BTreeMap, BTreeSet};

use crate::{LabError, Node, Pod, PodSpec, Result, addr};

/// The pods of a lab.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    pub(crate) by_name: BTreeMap<String, Pod>,
    /// Addresses in use, as (node, index).
    pub(crate) taken: BTreeSet<(u8, u8)>,
}

impl Pods {
    /// The address that `spec` asks for, else the first that is free on its node.
    pub(crate) fn free_index(&self, spec: &PodSpec, node: &Node) -> Result<u8> {
        let is_free = |index: &u8| !self.taken.contains(&(node.index(), *index));
        let Some(wanted) = spec.addresses else {
            return (0..addr::MAX_PODS).find(is_free).ok_or(LabError::Full {
                kind: "pod",
                limit: addr::MAX_PODS.into(),
            });
        };
        let bad = |reason| LabError::BadAddress {
            pod: spec.name.clone(),
            address: wanted.v4,
            reason,
        };
        let index = addr::pod_index(node.index(), wanted)
            .ok_or_else(|| bad("it is not in the plan of that node"))?;
        is_free(&index)
            .then_some(index)
            .ok_or_else(|| bad("another pod has it"))
    }
}

pub(crate) fn next_node(count: usize) -> Result<u8> {
    u8::try_from(count + 1)
        .ok()
        .filter(|index| *index <= addr::MAX_NODES)
        .ok_or(LabError::Full {
            kind: "node",
            limit: addr::MAX_NODES.into(),
        })
}

pub(crate) fn check_name(kind: &'static str, name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if name.is_empty() || name.len() > 200 || !name.chars().all(legal) || name.starts_with('.') {
        return Err(bad_name(
            kind,
            name,
            "it names files: use letters, digits, `-`, `_` and `.`",
        ));
    }
    Ok(())
}

pub(crate) fn bad_name(kind: &'static str, name: &str, reason: &'static str) -> LabError {
    LabError::BadName {
        kind,
        name: name.to_owned(),
        reason,
    }
}

pub(crate) fn unknown(kind: &'static str, name: &str) -> LabError {
    LabError::Unknown {
        kind,
        name: name.to_owned(),
    }
}
