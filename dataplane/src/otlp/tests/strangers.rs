//! What listens at the collector's address, and is none.

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use super::*;

/// What a stranger says to whoever connects.
const GARBAGE: &[u8] = b"\x00\xff220 mail.example ESMTP\r\n\r\n\x16\x03\x03garbage";

/// Serves each connection by its number.
async fn listen<F, S>(serve: F) -> SocketAddr
where
    F: Fn(u32, TcpStream) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(serve(number, stream));
        }
    });
    address
}

async fn garbage(mut stream: TcpStream) {
    // Whether or not it listens.
    let _ = stream.write_all(GARBAGE).await;
    let mut ignored = [0; 1_024];
    while stream.read(&mut ignored).await.is_ok_and(|n| n > 0) {}
}

/// Tells ten connections to what speaks so; none arrives, nothing waits, and each is counted when the agent ends.
async fn is_survived(target: impl Into<String>) {
    let target = target.into();
    let site = Site::start(&target, all(), 0).await;
    site.tell(closed(10));
    // The first try has failed, or is under way.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(site.count(Outcome::exported), 0);
    let metrics = Arc::clone(&site.metrics);
    site.stop().await;
    assert_eq!(metrics.export.get(Outcome::failed), 10, "{target}");
}

#[tokio::test]
async fn garbage_is_no_collector() {
    let address = listen(|_, stream| garbage(stream)).await;
    tokio::join!(
        is_survived(format!("http://{address}")),
        is_survived(format!("http://{address}/v1/traces")),
    );
}

#[tokio::test]
async fn wrong_tls_is_no_collector() {
    // TLS is spoken to who speaks none, and to one who speaks something else.
    let collector = Collector::default();
    let plain = collector.clone().start().await;
    let stranger = listen(|_, stream| garbage(stream)).await;
    tokio::join!(
        is_survived(format!("https://{plain}")),
        is_survived(format!("https://{plain}/v1/traces")),
        is_survived(format!("https://{stranger}")),
    );
    assert!(collector.spans().is_empty());
}

#[tokio::test]
async fn who_never_answers_keeps_nobody_from_ending() {
    let address = listen(|_, mut stream| async move {
        let mut ignored = [0; 1_024];
        while stream.read(&mut ignored).await.is_ok_and(|n| n > 0) {}
    })
    .await;
    tokio::join!(
        is_survived(format!("http://{address}")),
        is_survived(format!("http://{address}/v1/traces")),
    );
}

#[tokio::test]
async fn where_nobody_listens_is_no_collector() {
    tokio::join!(
        is_survived("http://127.0.0.1:1"),
        is_survived("https://[::1]:1/v1/traces"),
    );
}

#[tokio::test]
async fn an_answer_that_is_no_otlp_is_a_failure() {
    let address = listen(|_, mut stream| async move {
        let mut read = Vec::new();
        // The request's body is smaller than this once it has come.
        while stream.read_buf(&mut read).await.is_ok_and(|n| n > 0) {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\xff\xff\xff\xff";
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    })
    .await;
    let site = Site::start(&format!("http://{address}/v1/traces"), all(), 0).await;
    site.tell(closed(3));
    site.until(Outcome::failed, 3).await;
    site.stop().await;
}

#[tokio::test]
async fn when_the_collector_is_back_what_waited_arrives() {
    let collector = Collector::default();
    let behind = collector.clone().start().await;
    let address = listen(move |number, mut stream| async move {
        if number < 2 {
            return drop(stream.write_all(GARBAGE).await);
        }
        let mut inner = TcpStream::connect(behind).await.expect("the collector");
        let _ = copy_bidirectional(&mut stream, &mut inner).await;
    })
    .await;
    let site = Site::start(&format!("http://{address}/v1/traces"), all(), 0).await;
    site.tell(closed(1_200));
    site.until(Outcome::exported, 1_200).await;
    assert_eq!(collector.spans().len(), 1_200);
    site.stop().await;
}
