//! `weft status`, `weft services`, `weft backends`, `weft workloads`, `weft policies`: what the agent says about itself.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde::Serialize;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tonic::{Response, Status as GrpcStatus, Streaming};
use weft_dataplane::admin;
use weft_proto::wire::admin::v1::admin_client::AdminClient;
use weft_proto::wire::admin::v1::{GetStatusRequest, ListRequest, Status};

use super::Failure;
use crate::args::{ListArgs, OutputFormat, StatusArgs};
use crate::output::{self, Style};

/// An agent that takes longer than this for an answer hangs.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Between two looks while waiting.
const PAUSE: Duration = Duration::from_millis(20);

/// Prints the agent's status.
///
/// # Errors
/// When there is no agent, or it is not ready in the time that it was given.
pub(crate) async fn status(args: &StatusArgs) -> Result<(), Failure> {
    let deadline = Instant::now() + Duration::from_secs(args.wait.into());
    let status = loop {
        let last = Instant::now() >= deadline;
        match ask_status(&args.run_dir.path).await {
            Ok(status) if last || output::is_ready(&status) => break status,
            Err(error) if last => return Err(error.into()),
            Ok(_) | Err(_) => sleep(PAUSE).await,
        }
    };
    match args.output.output {
        OutputFormat::Json => output::print_json(&output::status_json(&status))?,
        OutputFormat::Table => output::print(&output::status(&status, output::style()))?,
    }
    if output::is_ready(&status) {
        Ok(())
    } else {
        Err(Failure::Quiet)
    }
}

async fn ask_status(run_dir: &Path) -> Result<Status> {
    let mut agent = connect(run_dir).await?;
    answer(agent.get_status(GetStatusRequest {})).await
}

/// Lists services.
///
/// # Errors
/// When there is no agent, or no such service.
pub(crate) async fn services(args: &ListArgs) -> Result<(), Failure> {
    let mut agent = connect(&args.run_dir.path).await?;
    let list = all(answer(agent.list_services(ListRequest {})).await?).await?;
    show(args, list, |s| s.service.clone(), output::services)
}

/// Lists backends, by service.
///
/// # Errors
/// When there is no agent, or no such service.
pub(crate) async fn backends(args: &ListArgs) -> Result<(), Failure> {
    let mut agent = connect(&args.run_dir.path).await?;
    let list = all(answer(agent.list_backends(ListRequest {})).await?).await?;
    show(args, list, |b| b.service.clone(), output::backends)
}

/// Lists pods and nodes.
///
/// # Errors
/// When there is no agent, or no such workload.
pub(crate) async fn workloads(args: &ListArgs) -> Result<(), Failure> {
    let mut agent = connect(&args.run_dir.path).await?;
    let list = all(answer(agent.list_workloads(ListRequest {})).await?).await?;
    show(args, list, output::workload_name, output::workloads)
}

/// Lists what says who may talk to whom.
///
/// # Errors
/// When there is no agent, or no such object.
pub(crate) async fn policies(args: &ListArgs) -> Result<(), Failure> {
    let mut agent = connect(&args.run_dir.path).await?;
    let list = all(answer(agent.list_policies(ListRequest {})).await?).await?;
    show(args, list, output::policy_name, output::policies)
}

/// Lists the certificates of the node's workloads.
///
/// # Errors
/// When there is no agent, or no such identity.
pub(crate) async fn certificates(args: &ListArgs) -> Result<(), Failure> {
    let mut agent = connect(&args.run_dir.path).await?;
    let list = all(answer(agent.list_certificates(ListRequest {})).await?).await?;
    show(args, list, output::certificate_name, output::certificates)
}

pub(super) async fn connect(run_dir: &Path) -> Result<AdminClient<Channel>> {
    let connected = timeout(ANSWER_WITHIN, admin::connect(run_dir)).await;
    Ok(connected.map_err(|_| hangs())??)
}

pub(super) async fn answer<T>(
    call: impl Future<Output = Result<Response<T>, GrpcStatus>>,
) -> Result<T> {
    let answered = timeout(ANSWER_WITHIN, call).await.map_err(|_| hangs())?;
    Ok(answered.map_err(said)?.into_inner())
}

pub(super) async fn all<T>(mut stream: Streaming<T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    while let Some(item) = timeout(ANSWER_WITHIN, stream.message())
        .await
        .map_err(|_| hangs())?
        .map_err(said)?
    {
        list.push(item);
    }
    Ok(list)
}

fn hangs() -> anyhow::Error {
    anyhow!("the agent does not answer: see its log")
}

pub(super) fn said(status: GrpcStatus) -> anyhow::Error {
    anyhow!("the agent said: {}", status.message())
}

fn show<T: Serialize>(
    args: &ListArgs,
    mut list: Vec<T>,
    name: impl Fn(&T) -> String,
    table: impl Fn(&[T], Style) -> String,
) -> Result<(), Failure> {
    if let Some(only) = &args.only {
        list.retain(|item| is_meant(only, &name(item)));
    }
    match args.output.output {
        OutputFormat::Json => output::print_json(&list)?,
        OutputFormat::Table => output::print(&table(&list, output::style()))?,
    }
    match &args.only {
        Some(only) if list.is_empty() => Err(Failure::Told(anyhow!("there is no {only}"))),
        _ => Ok(()),
    }
}

/// `namespace/name` means itself, `namespace/` all that is in there.
fn is_meant(only: &str, name: &str) -> bool {
    if only.ends_with('/') {
        name.starts_with(only)
    } else {
        name == only
    }
}

#[cfg(test)]
mod tests {
    use super::is_meant;

    #[test]
    fn a_namespace_means_all_in_it() {
        assert!(is_meant("shop/", "shop/cart"));
        assert!(is_meant("shop/cart", "shop/cart"));
        assert!(!is_meant("shop/car", "shop/cart"));
        assert!(!is_meant("sho/", "shop/cart"));
        assert!(is_meant("n1", "n1"));
    }
}
