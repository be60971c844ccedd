//! Whom a policy selects.

use crate::convert::ConvertError;
use crate::model::policy::{LabelCondition, LabelRequirement, Selector};
use crate::wire::policy::v1 as wire;

pub(super) fn encode(selector: &Selector) -> wire::Selector {
    let namespaces = selector.namespaces.as_ref();
    wire::Selector {
        no_namespace: namespaces.is_some_and(|n| n.is_empty()),
        namespaces: namespaces.into_iter().flatten().cloned().collect(),
        labels: selector.labels.iter().map(encode_requirement).collect(),
    }
}

fn encode_requirement(requirement: &LabelRequirement) -> wire::LabelRequirement {
    let (operator, values) = match &requirement.is {
        LabelCondition::In(values) => (wire::Operator::In, Some(values)),
        LabelCondition::NotIn(values) => (wire::Operator::NotIn, Some(values)),
        LabelCondition::Exists => (wire::Operator::Exists, None),
        LabelCondition::DoesNotExist => (wire::Operator::DoesNotExist, None),
    };
    wire::LabelRequirement {
        key: requirement.key.clone(),
        operator: operator as i32,
        values: values.into_iter().flatten().cloned().collect(),
    }
}

pub(super) fn decode(pb: &wire::Selector) -> Result<Selector, ConvertError> {
    if pb.no_namespace && !pb.namespaces.is_empty() {
        return Err(ConvertError::new(
            "no_namespace",
            "contradicts namespaces, which names some",
        ));
    }
    let all = pb.namespaces.is_empty() && !pb.no_namespace;
    Ok(Selector {
        namespaces: (!all).then(|| pb.namespaces.iter().cloned().collect()),
        labels: pb
            .labels
            .iter()
            .enumerate()
            .map(|(i, r)| decode_requirement(r).map_err(|e| e.within(&format!("labels[{i}]"))))
            .collect::<Result<_, _>>()?,
    })
}

fn decode_requirement(pb: &wire::LabelRequirement) -> Result<LabelRequirement, ConvertError> {
    if pb.key.is_empty() {
        return Err(ConvertError::new("key", "is empty"));
    }
    let values = pb.values.iter().cloned().collect();
    let (is, wants_values) = match wire::Operator::try_from(pb.operator) {
        Ok(wire::Operator::In) => (LabelCondition::In(values), true),
        Ok(wire::Operator::NotIn) => (LabelCondition::NotIn(values), true),
        Ok(wire::Operator::Exists) => (LabelCondition::Exists, false),
        Ok(wire::Operator::DoesNotExist) => (LabelCondition::DoesNotExist, false),
        Ok(wire::Operator::Unspecified) | Err(_) => {
            return Err(ConvertError::new(
                "operator",
                format!(
                    "{} is not IN, NOT_IN, EXISTS or DOES_NOT_EXIST",
                    pb.operator
                ),
            ));
        }
    };
    match (wants_values, pb.values.is_empty()) {
        (true, true) => Err(ConvertError::new("values", "is empty")),
        (false, false) => Err(ConvertError::new(
            "values",
            "must be empty with EXISTS and DOES_NOT_EXIST",
        )),
        _ => Ok(LabelRequirement {
            key: pb.key.clone(),
            is,
        }),
    }
}
