//! One stream's life: requests in, responses out, changes in between.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::store::{Snapshot, Store};

/// What one variant of the protocol makes of a stream.
pub(super) trait Session: Send + 'static {
    /// Message from the client.
    type Request: Send + 'static;
    /// Message to the client.
    type Response: Send + 'static;

    /// Takes a request in; an error ends the stream.
    fn on_request(&mut self, request: Self::Request, snapshot: &Snapshot) -> Result<(), Status>;

    /// Notes what a change of the snapshot leaves to be sent; an error ends the stream.
    fn on_change(&mut self, snapshot: &Snapshot) -> Result<(), Status>;

    /// Whether there may be something to send.
    fn has_work(&self) -> bool;

    /// The next response, made of what the snapshot has now, or `None` when there is nothing to send after all.
    fn next_response(&mut self, snapshot: &Snapshot) -> Option<Self::Response>;
}

/// Runs a session in a task of its own and returns its responses.
///
/// Responses are made one at a time, when the client has room for them: a slow client costs no memory, and what it gets is
/// never older than the moment it is sent.
pub(super) fn spawn<S: Session>(
    session: S,
    requests: impl Stream<Item = Result<S::Request, Status>> + Send + Unpin + 'static,
    store: Arc<Store>,
    drain: CancellationToken,
) -> ReceiverStream<Result<S::Response, Status>> {
    let (responses, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        if let Err(status) = serve(session, requests, &store, &responses, drain).await {
            // The client may have gone already.
            let _ = responses.send(Err(status)).await;
        }
    });
    ReceiverStream::new(receiver)
}

async fn serve<S: Session>(
    mut session: S,
    mut requests: impl Stream<Item = Result<S::Request, Status>> + Unpin,
    store: &Store,
    responses: &mpsc::Sender<Result<S::Response, Status>>,
    drain: CancellationToken,
) -> Result<(), Status> {
    let mut published = store.subscribe();
    loop {
        let may_send = published.borrow_and_update().is_some();
        if may_send {
            store.read(|snapshot| session.on_change(snapshot))?;
        }
        tokio::select! {
            () = drain.cancelled() => return Err(Status::unavailable("the control plane is shutting down")),
            request = requests.next() => match request {
                Some(Ok(request)) => store.read(|snapshot| {
                    session.on_change(snapshot)?;
                    session.on_request(request, snapshot)
                })?,
                Some(Err(_)) | None => return Ok(()),
            },
            permit = responses.reserve(), if may_send && session.has_work() => {
                let Ok(permit) = permit else { return Ok(()) };
                let response = store.read(|snapshot| {
                    session.on_change(snapshot)?;
                    Ok::<_, Status>(session.next_response(snapshot))
                })?;
                if let Some(response) = response {
                    permit.send(Ok(response));
                }
            }
            changed = published.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
            }
        }
    }
}
