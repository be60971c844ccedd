//! `weft.status.v1.Problem`.

use super::ConvertError;
use crate::model::{Problem, Severity};
use crate::wire::status::v1::{Problem as Pb, Severity as PbSeverity};

/// The resource for `problem`.
#[must_use]
pub fn encode_problem(problem: &Problem) -> Pb {
    Pb {
        name: problem.name(),
        origin: problem.origin.clone(),
        object: problem.object.clone(),
        field: problem.field.clone(),
        message: problem.message.clone(),
        severity: match problem.severity {
            Severity::Error => PbSeverity::Error,
            Severity::Warning => PbSeverity::Warning,
        } as i32,
    }
}

/// The problem in `pb`; one of unknown severity counts as an error.
///
/// # Errors
/// No message.
pub fn decode_problem(pb: &Pb) -> Result<Problem, ConvertError> {
    if pb.message.is_empty() {
        return Err(ConvertError::new("message", "is empty"));
    }
    Ok(Problem {
        origin: pb.origin.clone(),
        object: pb.object.clone(),
        field: pb.field.clone(),
        message: pb.message.clone(),
        severity: match pb.severity() {
            PbSeverity::Warning => Severity::Warning,
            PbSeverity::Error | PbSeverity::Unspecified => Severity::Error,
        },
    })
}
