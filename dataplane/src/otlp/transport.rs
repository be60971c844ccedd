//! Batches on their way to the collector.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::Bytes;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{Method, Request, Response, StatusCode, Uri, header};
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};

use super::encoded::Encoded;
use super::parts::Parts;
use super::target::{Header, Protocol, Target};

/// Methods of OTLP's services.
const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
const CONNECT: Duration = Duration::from_secs(5);
/// A whole request, as the OTLP exporters' own default.
const REQUEST: Duration = Duration::from_secs(10);
/// Of an answer over HTTP: a collector that says more is none.
const ANSWER_BYTES: usize = 64 * 1024;
/// Longest pause that a collector may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Why a batch did not arrive.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct SendError {
    message: String,
    /// Whether trying again may help, and when the collector wants to see that.
    pub(super) again: Again,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    Never,
    Sometime,
    After(Duration),
}

/// A way to one collector. Clones share connections.
#[derive(Clone)]
pub(super) enum Transport {
    Grpc {
        channel: Channel,
        headers: Vec<(AsciiMetadataKey, AsciiMetadataValue)>,
    },
    Http {
        client: HttpClient,
        target: Box<Target>,
        headers: Vec<Header>,
    },
}

#[derive(Clone)]
pub(super) enum HttpClient {
    Plain(Box<Client<HttpConnector, Parts>>),
    Tls(Box<Client<HttpsConnector<HttpConnector>, Parts>>),
}

impl Transport {
    /// Connects when the first batch is sent.
    ///
    /// # Errors
    /// When TLS cannot be set up, such as on a machine without root certificates.
    pub(super) fn new(target: &Target, headers: &[Header]) -> Result<Self, String> {
        let uri = target.uri.clone();
        let is_tls = uri.scheme_str() == Some("https");
        match target.protocol {
            Protocol::Grpc => {
                let mut endpoint = Endpoint::from(uri)
                    .connect_timeout(CONNECT)
                    .timeout(REQUEST);
                if is_tls {
                    let tls = ClientTlsConfig::new().with_native_roots();
                    endpoint = endpoint.tls_config(tls).map_err(|e| e.to_string())?;
                }
                let channel = endpoint.connect_lazy();
                let headers = headers.iter().filter_map(|header| {
                    Some((header.name.parse().ok()?, header.value.parse().ok()?))
                });
                Ok(Self::Grpc {
                    channel,
                    headers: headers.collect(),
                })
            }
            Protocol::HttpProtobuf => Ok(Self::Http {
                client: http_client(is_tls)?,
                target: Box::new(target.clone()),
                headers: headers.to_vec(),
            }),
        }
    }

    /// Sends an encoded [`ExportTraceServiceRequest`]; returns how many of its spans the collector refused.
    ///
    /// [`ExportTraceServiceRequest`]: opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest
    ///
    /// # Errors
    /// When it did not arrive.
    pub(super) async fn traces(&self, batch: Parts) -> Result<u64, SendError> {
        let answer: ExportTraceServiceResponse = match self {
            Self::Grpc { channel, headers } => rpc(channel, TRACES, headers, batch).await?,
            Self::Http {
                client,
                target,
                headers,
            } => post(client, &target.uri, headers, batch).await?,
        };
        let refused = answer.partial_success.map_or(0, |p| p.rejected_spans);
        Ok(u64::try_from(refused).unwrap_or(0))
    }

    /// Likewise metrics; returns how many of their points the collector refused.
    ///
    /// # Errors
    /// As [`Transport::traces`].
    pub(super) async fn metrics(
        &self,
        metrics: &ExportMetricsServiceRequest,
    ) -> Result<u64, SendError> {
        let metrics = Parts::from(metrics.encode_to_vec());
        let answer: ExportMetricsServiceResponse = match self {
            Self::Grpc { channel, headers } => rpc(channel, METRICS, headers, metrics).await?,
            Self::Http {
                client,
                target,
                headers,
            } => post(client, &target.metrics, headers, metrics).await?,
        };
        let refused = answer.partial_success.map_or(0, |p| p.rejected_data_points);
        Ok(u64::try_from(refused).unwrap_or(0))
    }
}

/// Calls `method` with an encoded message.
async fn rpc<A: Message + Default + 'static>(
    channel: &Channel,
    method: &'static str,
    headers: &[(AsciiMetadataKey, AsciiMetadataValue)],
    message: Parts,
) -> Result<A, SendError> {
    let mut request = tonic::Request::new(message);
    for (name, value) in headers {
        request.metadata_mut().insert(name.clone(), value.clone());
    }
    let mut client = Grpc::new(channel.clone());
    client.ready().await.map_err(|e| transient(chain(&e)))?;
    let path = PathAndQuery::from_static(method);
    let answer = client.unary(request, path, Encoded::default()).await;
    Ok(answer.map_err(|status| of_status(&status))?.into_inner())
}

fn http_client(is_tls: bool) -> Result<HttpClient, String> {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT));
    let builder = Client::builder(TokioExecutor::new());
    if !is_tls {
        return Ok(HttpClient::Plain(Box::new(builder.build(connector))));
    }
    connector.enforce_http(false);
    let tls = HttpsConnectorBuilder::new()
        .with_native_roots()
        .map_err(|e| format!("no root certificates: {e}"))?
        .https_only()
        .enable_http1()
        .wrap_connector(connector);
    Ok(HttpClient::Tls(Box::new(builder.build(tls))))
}

async fn post<A: Message + Default>(
    client: &HttpClient,
    uri: &Uri,
    headers: &[Header],
    message: Parts,
) -> Result<A, SendError> {
    let exchanged = exchange(client, uri, headers, message);
    let body = tokio::time::timeout(REQUEST, exchanged)
        .await
        .map_err(|_| transient(format!("no answer within {REQUEST:?}")))??;
    A::decode(body).map_err(|_| permanent("its answer is no OTLP".to_owned()))
}

async fn exchange(
    client: &HttpClient,
    uri: &Uri,
    headers: &[Header],
    body: Parts,
) -> Result<Bytes, SendError> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header(header::CONTENT_TYPE, "application/x-protobuf");
    for header in headers {
        request = request.header(&header.name, &header.value);
    }
    let request = request.body(body).map_err(|e| permanent(e.to_string()))?;
    let sent = match client {
        HttpClient::Plain(client) => client.request(request).await,
        HttpClient::Tls(client) => client.request(request).await,
    };
    let answer = sent.map_err(|e| transient(chain(&e)))?;
    if answer.status() != StatusCode::OK {
        return Err(of_answer(&answer));
    }
    let body = Limited::new(answer.into_body(), ANSWER_BYTES);
    let body = body.collect().await;
    let body = body.map_err(|e| permanent(format!("its answer: {e}")))?;
    Ok(body.to_bytes())
}

/// Which answers are worth another try: OTLP, "Failures" of each transport.
fn of_answer<B>(answer: &Response<B>) -> SendError {
    let status = answer.status();
    let pause = answer
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(|seconds| Duration::from_secs(seconds).min(LONGEST_PAUSE));
    let again = match (status.as_u16(), pause) {
        (429 | 502 | 503 | 504, Some(pause)) => Again::After(pause),
        (429 | 502 | 503 | 504, None) => Again::Sometime,
        _ => Again::Never,
    };
    SendError {
        message: format!("it answered {status}"),
        again,
    }
}

fn of_status(status: &Status) -> SendError {
    let again = match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::ResourceExhausted
        | Code::DataLoss => Again::Sometime,
        // What tonic makes of a connection that breaks.
        Code::Unknown => Again::Sometime,
        _ => Again::Never,
    };
    SendError {
        message: chain(status),
        again,
    }
}

fn transient(message: String) -> SendError {
    let again = Again::Sometime;
    SendError { message, again }
}

fn permanent(message: String) -> SendError {
    let again = Again::Never;
    SendError { message, again }
}

/// An error with what caused it.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !message.contains(&more) {
            message = format!("{message}: {more}");
        }
        cause = error.source();
    }
    message
}
