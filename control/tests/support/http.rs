//! As much of an HTTP client as a test needs.

use std::net::SocketAddr;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// The body of the answer, or the answer's first line when it is not 200.
pub async fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    let stream = TcpStream::connect(address).await;
    get_over(stream.map_err(|e| e.to_string())?, path).await
}

/// The same over a Unix socket.
pub async fn get_unix(socket: &Path, path: &str) -> Result<String, String> {
    let stream = UnixStream::connect(socket).await;
    get_over(stream.map_err(|e| e.to_string())?, path).await
}

async fn get_over(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
) -> Result<String, String> {
    let text = fetch(stream, path).await.map_err(|e| e.to_string())?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no header")?;
    if !head.starts_with("HTTP/1.1 200") {
        return Err(head.lines().next().unwrap_or_default().to_owned());
    }
    if head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        return dechunk(body).ok_or_else(|| "bad chunks".to_owned());
    }
    Ok(body.to_owned())
}

async fn fetch(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

fn dechunk(mut body: &str) -> Option<String> {
    let mut text = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(text);
        }
        text.push_str(rest.get(..size)?);
        body = rest.get(size + 2..)?;
    }
}
