//! `weft policies`.

use weft_proto::wire::admin::v1::Policy;

use super::{Style, Table};

/// One row per object.
pub(crate) fn policies(list: &[Policy], style: Style) -> String {
    let mut table = Table::new(
        style,
        [
            "KIND",
            "POLICY",
            "DIRECTION",
            "TIER",
            "MODE",
            "ENFORCED BY",
            "#RULES",
            "LOCAL PODS",
            "PROBLEMS",
        ],
    );
    for policy in list {
        let directions = table.list(&policy.directions);
        let pods = table.list(&policy.pods);
        let problems: Vec<String> = policy.problems.iter().map(problem).collect();
        let problems = table.list(&problems);
        table.row([
            policy.kind.clone(),
            name(policy),
            directions,
            tier(policy),
            policy.mode.clone(),
            policy.enforced_by.clone(),
            policy.rules.to_string(),
            pods,
            problems,
        ]);
    }
    table.text()
}

fn problem(problem: &weft_proto::wire::admin::v1::ConfigProblem) -> String {
    match problem.field.as_str() {
        "" => problem.message.clone(),
        field => format!("{field}: {}", problem.message),
    }
}

/// Among these the lower number is asked first.
fn tier(policy: &Policy) -> String {
    match policy.tier.as_str() {
        "admin" | "baseline" => format!("{} {}", policy.tier, policy.priority),
        tier => tier.to_owned(),
    }
}

/// `namespace/name`, or the name alone for objects of the cluster.
pub(crate) fn name(policy: &Policy) -> String {
    match policy.namespace.as_str() {
        "" => policy.name.clone(),
        namespace => format!("{namespace}/{}", policy.name),
    }
}
