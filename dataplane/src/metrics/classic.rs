//! OpenMetrics as Prometheus' older text format, for those who do not ask for the newer one: `curl`, `promtool check metrics`.
//!
//! Samples are the same. A counter's family is called `x` in the one and `x_total`, as its samples, in the other; an info is a
//! gauge called `x_info`; there are no units and no end mark.
//!
//! Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

/// What a family is called, and its type, by its type in OpenMetrics.
fn renamed(name: &str, kind: &str) -> (String, &'static str) {
    match kind {
        "counter" => (format!("{name}_total"), "counter"),
        "info" => (format!("{name}_info"), "gauge"),
        "gauge" => (name.to_owned(), "gauge"),
        "histogram" => (name.to_owned(), "histogram"),
        _ => (name.to_owned(), "untyped"),
    }
}

/// `open` in the older format.
pub(super) fn from_open_metrics(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = "";
    for line in open.lines() {
        match line.strip_prefix("# ").map(|l| l.splitn(3, ' ')) {
            None => {
                text.push_str(line);
                text.push('\n');
            }
            Some(mut words) => match (words.next(), words.next(), words.next()) {
                (Some("HELP"), Some(_), Some(rest)) => help = rest,
                (Some("TYPE"), Some(name), Some(kind)) => {
                    let (name, kind) = renamed(name, kind);
                    text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
                }
                _ => {}
            },
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_the_names_of_their_samples() {
        let open = "# HELP weft_flows Events.\n# TYPE weft_flows counter\nweft_flows_total{reason=\"a # b\"} 3\n\
                    # HELP weft_build What.\n# TYPE weft_build info\nweft_build_info{version=\"1\"} 1\n\
                    # HELP weft_rtt_seconds Time.\n# TYPE weft_rtt_seconds histogram\n# UNIT weft_rtt_seconds seconds\n\
                    weft_rtt_seconds_sum 0.5\n# EOF\n";
        let classic = "# HELP weft_flows_total Events.\n# TYPE weft_flows_total counter\nweft_flows_total{reason=\"a # b\"} 3\n\
                       # HELP weft_build_info What.\n# TYPE weft_build_info gauge\nweft_build_info{version=\"1\"} 1\n\
                       # HELP weft_rtt_seconds Time.\n# TYPE weft_rtt_seconds histogram\n\
                       weft_rtt_seconds_sum 0.5\n";
        assert_eq!(from_open_metrics(open), classic);
    }
}
