//! Options whose feature a later version brings: silence would pretend that it is there.

use super::Refusal;

pub(super) fn refuse(option: &str, feature: &str, advice: &str) -> Refusal {
    Refusal::new(format!("{option}: {feature} not in this version; {advice}"))
}
