//! When there is more to tell than can be told, what is lost is counted to the last one, where it is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use weft_e2e::collector::Collector;
use weft_e2e::mesh::TARGET;
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::{Lab, LoadOptions, Node, PodSpec, WeftOptions};

const COLLECTOR: &str = "127.0.0.1:4317";
/// New connections a second, and for how long: their spans are more than the queue holds.
const RATE: u32 = 2_500;
const TIME: Duration = Duration::from_secs(4);
/// Until a batch is given up that nobody takes.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// Sums of series by their name, or by name and one label's value as "name/value".
fn scrape(node: &Node) -> Result<BTreeMap<String, u64>> {
    let scrape = node
        .command("curl")
        .args(["-sS", "http://127.0.0.1:15020/metrics"]);
    let text = scrape.run(LONG)?.success()?.stdout;
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').context("a sample")?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let Ok(value) = value.parse::<f64>() else {
            continue;
        };
        *sums.entry(name.to_owned()).or_default() += value as u64;
        for label in labels.trim_end_matches('}').split(',') {
            if let Some((_, of)) = label.split_once('=') {
                let key = format!("{name}/{}", of.trim_matches('"'));
                *sums.entry(key).or_default() += value as u64;
            }
        }
    }
    Ok(sums)
}

/// Everything that was made is somewhere, given that so many connections were opened and closed; true when nothing is on its way.
fn adds_up(sums: &BTreeMap<String, u64>, connections: u64) -> Result<bool> {
    let get = |name: &str| sums.get(name).copied().unwrap_or_default();
    let (read, lost) = (
        get("weft_flows_total"),
        get("weft_kernel_events_total/events_lost"),
    );
    // An event for its beginning and one for its end.
    ensure!(
        read + lost == 2 * connections,
        "{read} events read and {lost} lost, of {connections} connections"
    );
    let (looked, overtaken) = (
        get("weft_otlp_flows_total"),
        get("weft_otlp_flows_overtaken_total"),
    );
    ensure!(
        looked + overtaken == read,
        "{looked} flows looked at and {overtaken} overtaken, of {read}"
    );
    let (spans, ended) = (
        get("weft_otlp_spans_total"),
        get("weft_otlp_flows_total/spans"),
    );
    // Both ends are on this node.
    ensure!(spans <= 2 * ended, "{spans} spans of {ended} flows");
    Ok(spans == 2 * ended)
}

#[test]
fn what_is_lost_is_counted_where_it_is_lost() -> Result {
    let pod = |name: &str| {
        PodSpec::new(name, "n1")
            .namespace("shop")
            .label("app", name)
    };
    // A ring and a memory that are too small on purpose.
    let options = WeftOptions::default()
        .arg("--otlp")
        .arg(format!("http://{COLLECTOR}"))
        .arg("--map-size")
        .arg("events=32768")
        .arg("--flow-history")
        .arg("300");
    let builder = Lab::builder()
        .node("n1")
        .pod(pod("client"))
        .pod(pod("server"));
    let mut mesh = Mesh::start_with(builder, &options)?;
    mesh.serve(&["server"])?;
    let node = mesh.lab.node("n1")?;
    let to = mesh.pod("server")?.socket_v4(TARGET);
    let load = mesh
        .pod("client")?
        .load(to, &LoadOptions::connects(RATE, TIME))?;
    let summary = load.finish()?;
    ensure!(summary.failed == 0, "{summary:?}");

    // Nobody takes a span yet: the queue is full, and what does not fit is counted.
    let sums = eventually(LONG, || {
        let sums = scrape(&node)?;
        adds_up(&sums, summary.connects)?;
        Ok(sums)
    })?;
    let get = |name: &str| sums.get(name).copied().unwrap_or_default();
    for name in [
        "weft_kernel_events_total/events_lost",
        "weft_otlp_spans_total/queue_full",
    ] {
        ensure!(get(name) > 0, "nothing was lost as {name}: {sums:#?}");
    }
    ensure!(get("weft_otlp_spans_total/exported") == 0);

    // Now somebody does: what waits arrives, and all of it is accounted for.
    let collector = Collector::start(node.netns(), COLLECTOR.parse()?)?;
    let sums = eventually(GIVEN_UP, || {
        let sums = scrape(&node)?;
        ensure!(adds_up(&sums, summary.connects)?, "spans are on their way");
        Ok(sums)
    })?;
    let exported = sums.get("weft_otlp_spans_total/exported").copied();
    ensure!(exported.unwrap_or_default() > 0, "{sums:#?}");
    ensure!(exported == Some(collector.spans().len() as u64));
    mesh.weft("n1")?.wait_ready(LONG)?;
    Ok(())
}
