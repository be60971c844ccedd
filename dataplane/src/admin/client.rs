//! How `weft status` and its like reach the agent.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use weft_proto::wire::admin::v1::admin_client::AdminClient;

use super::lock::socket_path;

/// No agent to talk to.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens.
    #[error(
        "no agent runs on {0}: start one with `weft up` or `weft agent`, or name its directory with --run-dir"
    )]
    NoAgent(PathBuf),
    /// Somebody listens, but not to this user.
    #[error("the agent on {0} talks to its own user only: run this as root")]
    Permission(PathBuf),
    /// Anything else.
    #[error("agent on {path}: {source}")]
    Io {
        /// The run directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The gRPC handshake failed.
    #[error("agent on {path}: {source}")]
    Transport {
        /// The run directory.
        path: PathBuf,
        /// What went wrong.
        source: tonic::transport::Error,
    },
}

/// Connects to the agent of `run_dir`, which may also be its socket, or one that leads there (`ssh -L`).
///
/// # Errors
/// Says what to do when there is none, or when this user may not.
pub async fn connect(run_dir: &Path) -> Result<AdminClient<Channel>, ConnectError> {
    let is_socket = std::fs::metadata(run_dir).is_ok_and(|m| m.file_type().is_socket());
    let socket = match is_socket {
        true => run_dir.to_owned(),
        false => socket_path(run_dir),
    };
    let path = run_dir.to_owned();
    let stream = UnixStream::connect(&socket)
        .await
        .map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ConnectError::NoAgent(path.clone())
            }
            io::ErrorKind::PermissionDenied => ConnectError::Permission(path.clone()),
            _ => ConnectError::Io {
                path: path.clone(),
                source,
            },
        })?;
    let mut first = Some(stream);
    let connector = tower::service_fn(move |_| {
        let open = first.take();
        let socket = socket.clone();
        async move {
            let stream = match open {
                Some(stream) => stream,
                None => UnixStream::connect(socket).await?,
            };
            Ok::<_, io::Error>(TokioIo::new(stream))
        }
    });
    // The name is never looked up: the connector above knows the way.
    let channel = Endpoint::from_static("http://agent.sock")
        .connect_with_connector(connector)
        .await
        .map_err(|source| ConnectError::Transport { path, source })?;
    Ok(AdminClient::new(channel).max_decoding_message_size(64 << 20))
}
