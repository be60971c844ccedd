//! `weft flows` and `weft conntrack`: what happens to connections, and which there are.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use tonic::Streaming;
use weft_proto::wire::admin::v1 as wire;
use weft_proto::wire::admin::v1::flow_item::Item;

use super::Failure;
use super::look::{all, answer, connect, said};
use crate::args::{ConntrackArgs, FlowsArgs, OutputFormat};
use crate::output::{self, FlowLines};

/// Prints flows, oldest first, as they come.
///
/// # Errors
/// When there is no agent, or it stops meanwhile.
pub(crate) async fn flows(args: &FlowsArgs) -> Result<(), Failure> {
    let mut agent = connect(&args.run_dir.path).await?;
    let request = wire::ListFlowsRequest {
        filter: Some(wire::FlowFilter {
            from: args.ends.from.clone(),
            to: args.ends.to.clone(),
            verdict: args.verdict.map_or("", |v| v.word()).to_owned(),
        }),
        last: args
            .last
            .or((args.follow && args.since.is_none()).then_some(0)),
        follow: args.follow,
        since_unix_nano: args.since.map_or(0, ago),
    };
    let mut stream = answer(agent.list_flows(request)).await?;
    match args.output.output {
        OutputFormat::Json => follow_json(&mut stream).await,
        OutputFormat::Table => follow_lines(&mut stream).await,
    }
}

/// Nanoseconds since 1970 of so long ago.
fn ago(time: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let then = now.unwrap_or_default().saturating_sub(time);
    u64::try_from(then.as_nanos()).unwrap_or(u64::MAX)
}

/// There is no time limit: the next flow may be far off.
async fn next(stream: &mut Streaming<wire::FlowItem>) -> Result<Option<Item>> {
    loop {
        match stream.message().await.map_err(said)? {
            None => return Ok(None),
            Some(wire::FlowItem { item: Some(item) }) => return Ok(Some(item)),
            // Of a newer agent.
            Some(wire::FlowItem { item: None }) => {}
        }
    }
}

async fn follow_json(stream: &mut Streaming<wire::FlowItem>) -> Result<(), Failure> {
    while let Some(item) = next(stream).await? {
        let more = match item {
            Item::Flow(flow) => output::print_json_line(&flow)?,
            Item::Lost(lost) => output::print_json_line(&output::lost_json(lost.flows))?,
        };
        if !more {
            break;
        }
    }
    Ok(())
}

async fn follow_lines(stream: &mut Streaming<wire::FlowItem>) -> Result<(), Failure> {
    let mut lines = FlowLines::new(output::style(), output::colour::wanted());
    if !output::print_more(&lines.head())? {
        return Ok(());
    }
    while let Some(item) = next(stream).await? {
        let text = match item {
            Item::Flow(flow) => lines.flow(&flow),
            Item::Lost(lost) => lines.lost(lost.flows),
        };
        if !output::print_more(&text)? {
            break;
        }
    }
    Ok(())
}

/// Lists the connections that the kernel remembers.
///
/// # Errors
/// When there is no agent.
pub(crate) async fn conntrack(args: &ConntrackArgs) -> Result<(), Failure> {
    let mut agent = connect(&args.run_dir.path).await?;
    let request = wire::ListConntrackRequest {
        from: args.ends.from.clone(),
        to: args.ends.to.clone(),
    };
    let mut stream = answer(agent.list_conntrack(request)).await?;
    match args.output.output {
        // As they come: there may be a million.
        OutputFormat::Json => {
            while let Some(connection) = stream.message().await.map_err(said)? {
                if !output::print_json_line(&connection)? {
                    break;
                }
            }
        }
        OutputFormat::Table => {
            let list = all(stream).await?;
            output::print(&output::connections(&list, output::style()))?;
        }
    }
    Ok(())
}
