//! `weft status`.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use weft_proto::wire::admin::v1::{
    ConfigProblem, Identities, Map, PodInterface, Program, Rejection, Status, Subscription,
};

use super::{Style, Table};

/// Whether the node does all that it was told.
pub(crate) fn is_ready(status: &Status) -> bool {
    status.synced && status.attached && status.reasons.is_empty()
}

/// The agent's message with the conclusion `ready` beside it.
pub(crate) fn status_json(status: &Status) -> impl Serialize {
    #[derive(Serialize)]
    struct WithReady<'a> {
        ready: bool,
        #[serde(flatten)]
        status: &'a Status,
    }
    WithReady {
        ready: is_ready(status),
        status,
    }
}

/// A summary and one table for each thing that there is something to say about.
pub(crate) fn status(status: &Status, style: Style) -> String {
    let sections = [
        Some(summary(status)),
        programs(&status.programs, style),
        interfaces(&status.interfaces, style),
        maps(&status.maps, style),
        subscriptions(&status.subscriptions, style),
        counters(status, style),
        rejections(&status.rejections, style),
        problems(&status.problems, style),
    ];
    sections
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n")
}

fn summary(status: &Status) -> String {
    let uptime = humantime::format_duration(Duration::from_secs(status.uptime_seconds));
    let link = if status.connected {
        "connected"
    } else {
        "not connected: the last good state stays"
    };
    let ready = match (is_ready(status), status.reasons.as_slice()) {
        (true, []) => "yes".to_owned(),
        (true, reasons) => format!("yes, but {}", reasons.join("; ")),
        (false, []) => missing(status),
        (false, reasons) => format!("no: {}", reasons.join("; ")),
    };
    let mut text = format!(
        "node     {}\nagent    {}, pid {}, up {uptime}\ncontrol  {}, {link}\npolicy   epoch {}\nready    {ready}\n",
        status.node, status.version, status.pid, status.control, status.policy_epoch,
    );
    if let Some(now) = &status.identities {
        text.push_str(&identities(now));
    }
    if let Some(routing) = &status.host_routing {
        let names: Vec<&str> = routing.uplinks.iter().map(|u| u.name.as_str()).collect();
        let uplinks = names.join(", ");
        text.push_str(&format!(
            "routing  {} by {uplinks}: {}\n",
            routing.by, routing.because
        ));
    }
    for warning in &status.warnings {
        text.push_str(&format!("warning  {warning}\n"));
    }
    text
}

fn identities(now: &Identities) -> String {
    let trust = match (now.trust_bundle.as_str(), now.no_ca) {
        ("", true) => "the control plane issues no certificates".to_owned(),
        ("", false) => "no trust bundle yet".to_owned(),
        (bundle, _) => format!(
            "{}, bundle {bundle}, {} root(s)",
            now.trust_domain, now.roots
        ),
    };
    let end = u64::try_from(now.next_expiry).ok().filter(|end| *end > 0);
    let end = end.map(|end| UNIX_EPOCH + Duration::from_secs(end));
    let end = end.map(|end| {
        let end = humantime::format_rfc3339_seconds(end);
        format!(", the first until {end}")
    });
    let (valid, all, end) = (now.valid, now.certificates, end.unwrap_or_default());
    format!("certs    {valid} of {all} valid{end}\ntrust    {trust}\n")
}

fn missing(status: &Status) -> String {
    match (status.synced, status.attached) {
        (false, false) => "no: neither synced nor attached",
        (false, true) => "no: not synced",
        _ => "no: not every program is attached",
    }
    .to_owned()
}

fn programs(list: &[Program], style: Style) -> Option<String> {
    let mut table = Table::new(style, ["PROGRAM", "HOOK", "ATTACHED"]);
    for program in list {
        let attached = attached(program.attached, &program.error);
        table.row([program.name.clone(), program.attach_type.clone(), attached]);
    }
    (!list.is_empty()).then(|| table.text())
}

fn interfaces(list: &[PodInterface], style: Style) -> Option<String> {
    let mut table = Table::new(style, ["POD", "ADDRESSES", "INTERFACE", "HOOK", "ATTACHED"]);
    for interface in list {
        let names = interface.workloads.iter();
        let names: Vec<_> = names.map(|n| n.strip_prefix("pod/").unwrap_or(n)).collect();
        table.row([
            names.join(", "),
            interface.addresses.join(", "),
            interface.interface.clone(),
            interface.hook.clone(),
            attached(interface.attached, &interface.error),
        ]);
    }
    (!list.is_empty()).then(|| table.text())
}

fn attached(attached: bool, error: &str) -> String {
    match (attached, error) {
        (true, _) => "yes".to_owned(),
        (false, "") => "no".to_owned(),
        (false, error) => format!("no: {error}"),
    }
}

fn maps(list: &[Map], style: Style) -> Option<String> {
    let mut table = Table::new(
        style,
        ["MAP", "#ENTRIES", "#SIZE", "#USE", "#REFUSED (FULL)"],
    );
    for map in list {
        table.row([
            map.name.clone(),
            map.entries.to_string(),
            map.max_entries.to_string(),
            percent(map.entries, map.max_entries),
            map.full.to_string(),
        ]);
    }
    (!list.is_empty()).then(|| table.text())
}

fn percent(part: u64, whole: u64) -> String {
    // In 128 bits: a hundred times a u64 does not fit one.
    match (u128::from(part) * 100).checked_div(u128::from(whole)) {
        Some(percent) => format!("{percent} %"),
        None => String::new(),
    }
}

fn subscriptions(list: &[Subscription], style: Style) -> Option<String> {
    let mut table = Table::new(style, ["RESOURCES", "#HELD", "RECEIVED", "NONCE"]);
    for subscription in list {
        table.row([
            kind(&subscription.type_url).to_owned(),
            subscription.resources.to_string(),
            if subscription.received {
                "yes"
            } else {
                "not yet"
            }
            .to_owned(),
            subscription.last_nonce.clone(),
        ]);
    }
    (!list.is_empty()).then(|| table.text())
}

fn counters(status: &Status, style: Style) -> Option<String> {
    let mut table = Table::new(style, ["COUNTER", "#VALUE"]);
    for counter in &status.counters {
        table.row([counter.name.clone(), counter.value.to_string()]);
    }
    (!status.counters.is_empty()).then(|| table.text())
}

fn rejections(list: &[Rejection], style: Style) -> Option<String> {
    let mut table = Table::new(style, ["REJECTED", "RESOURCE", "REASON"]);
    for rejection in list {
        table.row([
            kind(&rejection.type_url).to_owned(),
            rejection.resource.clone(),
            rejection.reason.clone(),
        ]);
    }
    (!list.is_empty()).then(|| table.text())
}

fn problems(list: &[ConfigProblem], style: Style) -> Option<String> {
    let mut table = Table::new(style, ["PROBLEM", "WHERE", "OBJECT", "FIELD", "WHAT"]);
    for problem in list {
        table.row([
            problem.severity.clone(),
            problem.origin.clone(),
            problem.object.clone(),
            problem.field.clone(),
            problem.message.clone(),
        ]);
    }
    (!list.is_empty()).then(|| table.text())
}

/// `type.googleapis.com/envoy.config.cluster.v3.Cluster` is a Cluster to people.
fn kind(type_url: &str) -> &str {
    type_url.rsplit('.').next().unwrap_or(type_url)
}
