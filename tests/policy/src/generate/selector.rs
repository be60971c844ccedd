//! Label selectors.

use super::{Random, pool};
use crate::object::{LabelSelector, Labels, METADATA_NAME, Operator, Requirement};

pub(super) fn labels(random: &mut Random) -> Labels {
    random
        .many(0..=2, |r| {
            (
                r.pick(&pool::KEYS).to_owned(),
                r.pick(&pool::VALUES).to_owned(),
            )
        })
        .into_iter()
        .collect()
}

/// Of pods, nodes or namespaces.
pub(super) fn selector(random: &mut Random) -> LabelSelector {
    match random.number(0..=7) {
        0..=2 => LabelSelector::default(),
        3 => LabelSelector {
            match_labels: Some(Labels::new()),
            match_expressions: Some(Vec::new()),
        },
        4 | 5 => LabelSelector {
            match_labels: Some(labels(random)),
            match_expressions: None,
        },
        6 => LabelSelector {
            match_labels: None,
            match_expressions: Some(random.many(1..=2, requirement)),
        },
        _ => LabelSelector {
            match_labels: Some(labels(random)),
            match_expressions: Some(vec![requirement(random)]),
        },
    }
}

/// Of namespaces, some of them by name.
pub(super) fn namespace_selector(random: &mut Random) -> LabelSelector {
    if !random.one_in(3) {
        return selector(random);
    }
    let name = random.pick(&pool::NAMESPACES).to_owned();
    LabelSelector {
        match_labels: Some([(METADATA_NAME.to_owned(), name)].into()),
        match_expressions: None,
    }
}

fn requirement(random: &mut Random) -> Requirement {
    let operator = random.pick(&[
        Operator::In,
        Operator::NotIn,
        Operator::Exists,
        Operator::DoesNotExist,
    ]);
    let values = matches!(operator, Operator::In | Operator::NotIn)
        .then(|| random.many(1..=2, |r| r.pick(&pool::VALUES).to_owned()));
    Requirement {
        key: random.pick(&pool::KEYS).to_owned(),
        operator,
        values,
    }
}
