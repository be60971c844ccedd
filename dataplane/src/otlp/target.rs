//! Where the collector is.

use std::fmt;
use std::str::FromStr;

use tonic::transport::Uri;

/// Port of OTLP over gRPC; over HTTP it is [`HTTP_PORT`].
const GRPC_PORT: u16 = 4317;
const HTTP_PORT: u16 = 4318;
/// What OTLP over HTTP posts to, below the collector's own path.
const TRACES_PATH: &str = "/v1/traces";
const METRICS_PATH: &str = "/v1/metrics";

/// How spans travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `opentelemetry.proto.collector.trace.v1.TraceService`.
    Grpc,
    /// A POST of `application/x-protobuf` for each batch.
    HttpProtobuf,
}

/// A collector's address: what `--otlp` takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// With scheme, host and port; for HTTP with the path that traces are posted to.
    pub uri: Uri,
    /// As `uri`, for metrics.
    pub metrics: Uri,
    /// By port and path: 4318 and `/v1/traces` are HTTP's, all else is gRPC.
    pub protocol: Protocol,
}

/// An address that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is no collector's address: {fault}; give http://HOST:4317 for gRPC, http://HOST:4318/v1/traces for HTTP, or either with https"
)]
pub struct TargetError {
    given: String,
    fault: String,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(given: &str) -> Result<Self, TargetError> {
        let fault = |fault: &str| TargetError {
            given: given.to_owned(),
            fault: fault.to_owned(),
        };
        let uri: Uri = given.parse().map_err(|_| fault("it is no URL"))?;
        let scheme = match uri.scheme_str() {
            Some(scheme @ ("http" | "https")) => scheme,
            _ => return Err(fault("its scheme is neither http nor https")),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| fault("it has no host"))?;
        let authority = uri.authority().map_or("", |a| a.as_str());
        if authority.contains('@') {
            return Err(fault("credentials belong into --otlp-header"));
        }
        if uri.port_u16().is_none() && authority.len() > host.len() {
            return Err(fault("its port is no number up to 65535"));
        }
        if uri.query().is_some() {
            return Err(fault("it has a query"));
        }
        let path = uri.path();
        let is_http = uri.port_u16() == Some(HTTP_PORT) || path.ends_with(TRACES_PATH);
        let (protocol, port) = match (is_http, path) {
            (true, _) => (Protocol::HttpProtobuf, HTTP_PORT),
            (false, "/") => (Protocol::Grpc, GRPC_PORT),
            (false, _) => return Err(fault("gRPC takes no path")),
        };
        let port = uri.port_u16().unwrap_or(port);
        let below = path.strip_suffix(TRACES_PATH).unwrap_or(path);
        let below = below.trim_end_matches('/');
        let at = |signal: &str| {
            let path = if is_http {
                format!("{below}{signal}")
            } else {
                "/".to_owned()
            };
            let uri = format!("{scheme}://{host}:{port}{path}");
            uri.parse().map_err(|_| fault("it is no URL"))
        };
        Ok(Self {
            uri: at(TRACES_PATH)?,
            metrics: at(METRICS_PATH)?,
            protocol,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(f)
    }
}

/// A header of each request, such as a token: what `--otlp-header` takes. Its value is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    pub(super) name: String,
    pub(super) value: String,
}

/// A header that HTTP does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// No "=".
    #[error("give NAME=VALUE, as in authorization=Bearer\\ TOKEN")]
    NoValue,
    /// Of the name or the value.
    #[error("a header's {0} has characters that HTTP does not allow there")]
    Characters(&'static str),
}

impl FromStr for Header {
    type Err = HeaderError;

    fn from_str(given: &str) -> Result<Self, HeaderError> {
        let (name, value) = given.split_once('=').ok_or(HeaderError::NoValue)?;
        let name = name.to_ascii_lowercase();
        if tonic::metadata::AsciiMetadataKey::from_str(&name).is_err() {
            return Err(HeaderError::Characters("name"));
        }
        if tonic::metadata::AsciiMetadataValue::from_str(value).is_err() {
            return Err(HeaderError::Characters("value"));
        }
        Ok(Self {
            name,
            value: value.to_owned(),
        })
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=…", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(given: &str) -> (Protocol, String) {
        let target: Target = given.parse().expect("an address");
        (target.protocol, target.to_string())
    }

    #[test]
    fn port_and_path_say_which_protocol() {
        let grpc = |uri: &str| (Protocol::Grpc, uri.to_owned());
        let http = |uri: &str| (Protocol::HttpProtobuf, uri.to_owned());
        assert_eq!(parsed("http://c:4317"), grpc("http://c:4317/"));
        assert_eq!(parsed("https://c"), grpc("https://c:4317/"));
        assert_eq!(parsed("http://[fd00::1]:9"), grpc("http://[fd00::1]:9/"));
        assert_eq!(parsed("http://c:4318"), http("http://c:4318/v1/traces"));
        assert_eq!(
            parsed("http://c:4318/x/"),
            http("http://c:4318/x/v1/traces")
        );
        let target: Target = "https://c/x/v1/traces".parse().expect("an address");
        assert_eq!(target.metrics, "https://c:4318/x/v1/metrics");
        assert_eq!(
            parsed("http://c/x/v1/traces"),
            http("http://c:4318/x/v1/traces")
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (given, fault) in [
            ("", "no URL"),
            ("c:4317", "neither http nor https"),
            ("ftp://c", "neither http nor https"),
            ("http://c:4317/path", "no path"),
            ("http://u:p@c:4317", "--otlp-header"),
            ("http://c:4318/v1/traces?a=b", "query"),
            ("http://c:99999", "no number up to 65535"),
        ] {
            let error = given.parse::<Target>().expect_err(given).to_string();
            assert!(
                error.contains(fault) && error.contains("4317"),
                "{given}: {error}"
            );
        }
    }

    #[test]
    fn a_header_keeps_its_value_to_itself() {
        let header: Header = "Authorization=Bearer a=b".parse().expect("a header");
        assert_eq!(
            (header.name.as_str(), header.value.as_str()),
            ("authorization", "Bearer a=b")
        );
        assert_eq!(format!("{header:?}"), "authorization=…");
        assert_eq!("token".parse::<Header>(), Err(HeaderError::NoValue));
        assert!("a b=c".parse::<Header>().is_err() && "a=\n".parse::<Header>().is_err());
    }
}
