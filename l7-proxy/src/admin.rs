//! Envoy's admin interface on its Unix socket, as far as it is needed here.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const MOST_OUTPUT: u64 = 64 << 10;

/// Whether Envoy has its configuration and serves.
pub(crate) async fn is_ready(socket: &Path) -> bool {
    matches!(ask(socket, "GET", "/ready").await, Ok((200, _)))
}

/// Connections of clients that are open now, those that carry requests more than once: 0 is none.
pub(crate) async fn open_connections(socket: &Path) -> io::Result<u64> {
    let path = "/stats?filter=^(http|listener)\\..*\\.downstream_cx_active$&usedonly";
    let (_, text) = ask(socket, "GET", path).await?;
    Ok(text
        .lines()
        .filter(|line| !line.starts_with("http.admin.") && !line.starts_with("listener.admin."))
        .filter_map(|line| line.rsplit(": ").next()?.trim().parse::<u64>().ok())
        .sum())
}

/// Has Envoy close connections as their requests end, and take no new ones.
pub(crate) async fn drain(socket: &Path) -> io::Result<()> {
    ask(socket, "POST", "/drain_listeners?graceful")
        .await
        .map(drop)
}

async fn ask(socket: &Path, method: &str, path: &str) -> io::Result<(u16, String)> {
    let exchange = async {
        let mut stream = UnixStream::connect(socket).await?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: weft\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(MOST_OUTPUT).read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = tokio::time::timeout(ANSWER_WITHIN, exchange).await??;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("no answer in HTTP"))?;
    Ok((status, text))
}
