//! Tells load balancers whether this node has a backend of its own, where a service with `externalTrafficPolicy: Local` asks for it
//! (`healthCheckNodePort`), in the words of kube-proxy.
//!
//! See <https://kubernetes.io/docs/tasks/access-application-cluster/create-external-load-balancer/#preserving-the-client-source-ip>.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_proto::model::ServiceRef;

/// A port that somebody else has is tried again so often.
const RETRY: Duration = Duration::from_secs(5);
/// Connections that wait to be accepted.
const BACKLOG: u32 = 128;
/// How much of the traffic this node wants (<https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/3458-lb-weighted-endpoints>).
const WEIGHT: HeaderName = HeaderName::from_static("x-load-balancing-endpoint-weight");

/// What a service's port for health checks is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceHealth {
    /// Which, as far as the control plane has told.
    pub service: ServiceRef,
    /// Its backends on this node that take connections, each address once.
    pub local: usize,
}

/// By port.
pub type ServiceHealths = BTreeMap<u16, ServiceHealth>;

/// A port that is served until this is dropped.
struct Served {
    told: watch::Sender<ServiceHealth>,
    _stop: tokio_util::sync::DropGuard,
}

/// Serves these ports, as they come and go, in the network namespace of the caller until `drain` is cancelled.
pub async fn serve(mut wanted: watch::Receiver<ServiceHealths>, drain: CancellationToken) {
    let mut served: BTreeMap<u16, Served> = BTreeMap::new();
    loop {
        let now = wanted.borrow_and_update().clone();
        served.retain(|port, _| now.contains_key(port));
        let mut missing = false;
        for (port, health) in now {
            if let Some(there) = served.get(&port) {
                there.told.send_replace(health);
                continue;
            }
            match start(port, health) {
                Ok(new) => {
                    served.insert(port, new);
                }
                Err(e) => {
                    tracing::warn!("health checks at port {port} of this node: {e}: tried again");
                    missing = true;
                }
            }
        }
        tokio::select! {
            () = drain.cancelled() => return,
            changed = wanted.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY), if missing => {}
        }
    }
}

fn start(port: u16, health: ServiceHealth) -> std::io::Result<Served> {
    let listener = listen(port)?;
    let (told, asked) = watch::channel(health);
    let stop = CancellationToken::new();
    let router = Router::new().fallback(answer).with_state(asked);
    let until = stop.clone().cancelled_owned();
    tokio::spawn(async move {
        let served = axum::serve(listener, router).with_graceful_shutdown(until);
        if let Err(e) = served.await {
            tracing::warn!("health checks at port {port} have ended: {e}");
        }
    });
    Ok(Served {
        told,
        _stop: stop.drop_guard(),
    })
}

/// At all addresses of both families; of IPv4 alone on a node without IPv6.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    let bind = |socket: TcpSocket, address: IpAddr| {
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::new(address, port))?;
        socket.listen(BACKLOG)
    };
    match TcpSocket::new_v6() {
        Ok(socket) => bind(socket, Ipv6Addr::UNSPECIFIED.into()),
        Err(_) => bind(TcpSocket::new_v4()?, Ipv4Addr::UNSPECIFIED.into()),
    }
}

/// Whatever the path: load balancers ask for `/healthz` or for `/`.
async fn answer(State(health): State<watch::Receiver<ServiceHealth>>) -> Response {
    let ServiceHealth { service, local } = health.borrow().clone();
    let status = match local {
        0 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    let body = json!({
        "service": {"namespace": service.namespace, "name": service.name},
        "localEndpoints": local,
        "serviceProxyHealthy": true,
    });
    (status, [(WEIGHT, local.to_string())], Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    fn health(local: usize) -> ServiceHealth {
        ServiceHealth {
            service: ServiceRef {
                namespace: "shop".into(),
                name: "web".into(),
                port_name: String::new(),
            },
            local,
        }
    }

    async fn ask(address: IpAddr, port: u16) -> std::io::Result<String> {
        let mut stream = TcpStream::connect((address, port)).await?;
        let request = "GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text.to_lowercase())
    }

    async fn until(port: u16, holds: impl Fn(&std::io::Result<String>) -> bool) {
        for _ in 0..500 {
            let answer = ask(Ipv4Addr::LOCALHOST.into(), port).await;
            if holds(&answer) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?}", ask(Ipv4Addr::LOCALHOST.into(), port).await);
    }

    #[tokio::test]
    async fn ports_say_how_many_backends_there_are_and_end() {
        let free = listen(0).expect("a port");
        let port = free.local_addr().expect("bound").port();
        let (told, asked) = watch::channel(ServiceHealths::from([(port, health(2))]));
        let drain = CancellationToken::new();
        let task = tokio::spawn(serve(asked, drain.clone()));
        // Somebody else has the port for a while.
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(free);
        told.send_modify(|_| {});
        until(port, |answer| {
            answer.as_ref().is_ok_and(|text| {
                text.starts_with("http/1.1 200")
                    && text.contains("x-load-balancing-endpoint-weight: 2")
                    && text.contains(r#""service":{"name":"web","namespace":"shop"}"#)
            })
        })
        .await;
        told.send_replace(ServiceHealths::from([(port, health(0))]));
        until(port, |answer| {
            let text = answer.as_deref().unwrap_or_default();
            text.starts_with("http/1.1 503") && text.contains(r#""localendpoints":0"#)
        })
        .await;
        told.send_replace(ServiceHealths::new());
        until(port, Result::is_err).await;
        drain.cancel();
        task.await.expect("ends");
    }
}
