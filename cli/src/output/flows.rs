//! `weft flows`.

use serde::Serialize;
use weft_proto::time::rfc3339;
use weft_proto::wire::flow::v1::{Endpoint, Flow};

use super::Style;
use super::colour::Colour;
use super::wrap::wrap;

/// "19:44:05.250"
const TIME: usize = 12;
const EVENT: usize = 8;
/// Where the third column begins.
const INDENT: usize = TIME + EVENT + 4;
/// Sentences of flows are broken at this column, however wide the terminal is: they are read, not compared.
const WIDTH: usize = 80;

/// A reader that was too slow is told so among the flows.
pub(crate) fn lost_json(flows: u64) -> impl Serialize {
    #[derive(Serialize)]
    struct Lost {
        event: &'static str,
        flows: u64,
    }
    Lost {
        event: "lost",
        flows,
    }
}

/// Flows as text, one by one as they come: no column can know how wide the next flow will be.
pub(crate) struct FlowLines {
    style: Style,
    coloured: bool,
    /// Of the last flow: a new one is told.
    day: String,
}

impl FlowLines {
    /// None yet.
    pub(crate) fn new(style: Style, coloured: bool) -> Self {
        Self {
            style,
            coloured,
            day: String::new(),
        }
    }

    /// What stands above them.
    pub(crate) fn head(&self) -> String {
        format!("{:<TIME$}  {:<EVENT$}  WHAT\n", "TIME (UTC)", "EVENT")
    }

    /// One flow.
    pub(crate) fn flow(&mut self, flow: &Flow) -> String {
        let time = rfc3339(flow.time_unix_nano);
        let (day, clock) = time.split_once('T').unwrap_or_default();
        let mut text = String::new();
        if self.day != day {
            day.clone_into(&mut self.day);
            text = format!("{day}\n");
        }
        let clock = clock.get(..TIME).unwrap_or(clock);
        let ends = format!(
            "{clock}  {}  {} {}-> {}",
            self.event(flow),
            flow.protocol,
            source(flow),
            destination(flow),
        );
        let why = message(flow);
        match self.style {
            Style::Plain => text.push_str(&format!("{ends}  {why}\n")),
            _ => text.push_str(&format!("{ends}\n{}", wrap(why, INDENT, WIDTH))),
        }
        text
    }

    /// Its event as wide as the column; what needs a look stands out.
    fn event(&self, flow: &Flow) -> String {
        let word = format!("{:<EVENT$}", flow.event);
        let colour = match (flow.verdict.as_str(), flow.event.as_str()) {
            ("denied", _) => Colour::Red,
            ("audited", _) | (_, "expired" | "ejected" | "retrans") => Colour::Yellow,
            (_, "open" | "returned") => Colour::Green,
            _ => Colour::Dim,
        };
        match self.coloured {
            true => colour.paint(&word),
            false => word,
        }
    }

    /// This many are missing here.
    pub(crate) fn lost(&self, flows: u64) -> String {
        let what = format!("{flows} flows came too fast for this reader");
        format!("{:<TIME$}  {:<EVENT$}  {what}\n", "", "lost")
    }
}

/// The event stands beside it already.
fn message(flow: &Flow) -> &str {
    let said = flow.message.split_once(": ");
    said.map_or(flow.message.as_str(), |(_, rest)| rest)
}

/// With a space after it; nothing where nobody knows.
fn source(flow: &Flow) -> String {
    let Some(source) = &flow.source else {
        return String::new();
    };
    format!("{} ", end(Some(source)))
}

fn destination(flow: &Flow) -> String {
    let end = end(flow.destination.as_ref());
    match flow.service.as_str() {
        "" => end,
        service => format!("{end} ({service})"),
    }
}

/// "namespace/pod:port", or the address.
pub(crate) fn end(endpoint: Option<&Endpoint>) -> String {
    let Some(endpoint) = endpoint else {
        return String::new();
    };
    let name = match (endpoint.pod.as_str(), endpoint.port) {
        ("", 0) => return endpoint.address.clone(),
        ("", _) if endpoint.address.contains(':') => format!("[{}]", endpoint.address),
        ("", _) => endpoint.address.clone(),
        (pod, _) => format!("{}/{pod}", endpoint.namespace),
    };
    match endpoint.port {
        0 => name,
        port => format!("{name}:{port}"),
    }
}
