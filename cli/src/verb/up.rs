//! `weft up`: control plane and agent in one process.

use std::io;
use std::sync::Arc;

use anyhow::Result;
use futures::FutureExt;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use weft_control::ControlPlane;
use weft_control::auth::{Gate, Peer};
use weft_dataplane::agent::ControlTarget;
use weft_dataplane::xds::InProcess;

use super::{agent, control, tasks::Tasks};
use crate::args::UpArgs;
use crate::signals;

/// Bytes on their way through the pipe: as much as a full sync has in flight.
const PIPE: usize = 1 << 20;

/// Serves until a signal comes.
///
/// # Errors
/// When a part cannot start, or fails.
pub(crate) async fn run(args: &UpArgs) -> Result<()> {
    let drain = signals::drain_token()?;
    let listener = match args.listen {
        Some(address) => Some(control::bind(address, "--listen").await?),
        None => None,
    };
    let domain = &args.source.mesh.trust_domain;
    let own = args.agent.run_dir.path.join("ca");
    let ca = args.ca.config(domain.clone(), Some(own));
    let source = control::source(&args.source).await?;
    let authority = control::open_authority(&args.ca, ca, &source).await?;
    // With a CA that no other node knows, nobody could be reached through a tunnel.
    let shared = args.ca.is_shared() || args.listen.is_some();
    let authority = Some(authority);
    let plane = control::start(&args.source, source, authority, shared, drain.clone())?;
    control::publish_in_cluster(&plane, &args.ca, &drain);
    let (pipe, connections) = pipe();
    let mut tasks = Tasks::new(drain.clone());
    let node = Arc::from(args.agent.node.as_str());
    tasks.spawn(serve_pipe(plane.clone(), node, connections, drain.clone()));
    control::publish_bundle(&plane, &args.security, &drain)?;
    if let Some(listener) = listener {
        tasks.spawn(control::serve(plane, listener, &args.security)?);
    }
    let control = ControlTarget::InProcess(pipe);
    let agent = agent::start(&args.agent, domain, control, drain);
    tasks.finish(agent).await
}

type Connections = mpsc::Receiver<io::Result<DuplexStream>>;

/// The client's end, which makes a connection whenever the agent wants one, and the server's.
fn pipe() -> (InProcess, Connections) {
    let (sender, connections) = mpsc::channel(1);
    let open = move || {
        let sender = sender.clone();
        async move {
            let (ours, theirs) = tokio::io::duplex(PIPE);
            let gone = |_| io::Error::other("the control plane in this process has stopped");
            sender.send(Ok(theirs)).await.map_err(gone)?;
            Ok(ours)
        }
        .boxed()
    };
    (InProcess::new(open), connections)
}

async fn serve_pipe(
    plane: ControlPlane,
    node: Arc<str>,
    connections: Connections,
    drain: CancellationToken,
) -> Result<()> {
    // Nobody else has the other end.
    plane
        .server(Gate::Open(Peer::Node(node)))
        .serve_with_incoming_shutdown(ReceiverStream::new(connections), drain.cancelled_owned())
        .await?;
    Ok(())
}
