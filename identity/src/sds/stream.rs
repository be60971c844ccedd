//! One stream's life: requests in, responses out, new secrets in between.

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{Secrets, SecretsReceiver};

/// What one variant of the protocol makes of a stream.
pub(super) trait Session: Send + 'static {
    /// Message from the client.
    type Request: Send + 'static;
    /// Message to the client.
    type Response: Send + 'static;

    /// Takes a request in; an error ends the stream.
    fn on_request(&mut self, request: Self::Request) -> Result<(), Status>;

    /// The next response, if there is anything to say.
    fn next_response(&mut self, secrets: &Secrets) -> Option<Self::Response>;
}

/// Runs a session in a task of its own and returns its responses, one at a time: a slow client costs no memory.
pub(super) fn spawn<S: Session>(
    mut session: S,
    mut requests: impl Stream<Item = Result<S::Request, Status>> + Send + Unpin + 'static,
    mut secrets: SecretsReceiver,
    drain: CancellationToken,
) -> ReceiverStream<Result<S::Response, Status>> {
    let (responses, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let served = serve(&mut session, &mut requests, &mut secrets, &responses);
        let ended = tokio::select! {
            ended = served => ended,
            () = drain.cancelled() => Err(Status::unavailable("this server is shutting down")),
        };
        if let Err(status) = ended {
            // The client may have gone already.
            let _ = responses.send(Err(status)).await;
        }
    });
    ReceiverStream::new(receiver)
}

async fn serve<S: Session>(
    session: &mut S,
    requests: &mut (impl Stream<Item = Result<S::Request, Status>> + Unpin),
    secrets: &mut SecretsReceiver,
    responses: &mpsc::Sender<Result<S::Response, Status>>,
) -> Result<(), Status> {
    loop {
        let now = secrets.borrow_and_update().clone();
        while let Some(response) = session.next_response(&now) {
            if responses.send(Ok(response)).await.is_err() {
                return Ok(());
            }
        }
        tokio::select! {
            request = requests.next() => match request {
                Some(Ok(request)) => session.on_request(request)?,
                Some(Err(_)) | None => return Ok(()),
            },
            changed = secrets.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
            }
        }
    }
}
