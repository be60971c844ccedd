//! `weft check`: would this be let through, and who says so.

use anyhow::Result;
use weft_proto::wire::admin::v1::CheckRequest;

use super::Failure;
use super::look::{answer, connect};
use crate::args::{CheckArgs, OutputFormat};
use crate::output;

/// Asks the programs and maps that decide packets.
///
/// # Errors
/// When there is no agent, or nothing of that name; with `--exit-code` also when it is not allowed.
pub(crate) async fn run(args: &CheckArgs) -> Result<(), Failure> {
    let mut agent = connect(&args.run_dir.path).await?;
    let request = CheckRequest {
        from: args.from.clone(),
        to: args.to.place.clone(),
        port: args.to.port.into(),
        protocol: args.to.protocol.clone(),
    };
    let reply = answer(agent.check(request)).await?;
    match args.output.output {
        OutputFormat::Json => output::print_json(&reply)?,
        OutputFormat::Table => output::print(&output::check(&reply))?,
    }
    if args.exit_code && reply.verdict != "allowed" {
        return Err(Failure::Quiet);
    }
    Ok(())
}
