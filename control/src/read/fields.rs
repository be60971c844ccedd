//! Checks that several kinds share.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use weft_proto::model::Protocol;
use weft_proto::model::policy::IpProtocol;

use super::findings::Findings;
use super::names::shown;

/// A literal address that can be somebody's.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    let ip = text
        .parse::<IpAddr>()
        .map_err(|_| {
            format!(
                "{} is not an IP address: write it like 10.0.0.1 (no leading zeros) or fd00::1",
                shown(text)
            )
        })?
        .to_canonical();
    if ip.is_unspecified() || ip.is_multicast() {
        return Err(format!(
            "{ip} is {}, which no single host can have",
            if ip.is_multicast() {
                "a multicast address"
            } else {
                "the unspecified address"
            }
        ));
    }
    Ok(ip)
}

/// The addresses that are good; the others are reported under `<field>[i]<suffix>`.
pub(super) fn addresses<'a>(
    list: impl Iterator<Item = &'a str>,
    field: &str,
    suffix: &str,
    findings: &mut Findings,
) -> Vec<IpAddr> {
    let mut good = Vec::new();
    for (i, text) in list.enumerate() {
        match address(text) {
            Ok(ip) if good.contains(&ip) => {}
            Ok(ip) => good.push(ip),
            Err(message) => findings.invalid(format!("{field}[{i}]{suffix}"), message),
        }
    }
    good
}

/// A port from 1 to 65535.
pub(super) fn port(number: i32, field: &str, findings: &mut Findings) -> Option<u16> {
    let port = u16::try_from(number).ok().filter(|p| *p != 0);
    if port.is_none() {
        findings.invalid(field, format!("{number} is not a port: give 1 to 65535"));
    }
    port
}

/// TCP or UDP; TCP when nothing is said.
pub(super) fn protocol(
    name: Option<&str>,
    field: &str,
    findings: &mut Findings,
) -> Option<Protocol> {
    match name.unwrap_or("TCP") {
        "TCP" => Some(Protocol::Tcp),
        "UDP" => Some(Protocol::Udp),
        "SCTP" => {
            findings.unsupported(
                field,
                "SCTP is not supported: this port is left out; use TCP or UDP",
            );
            None
        }
        other => {
            findings.invalid(
                field,
                format!("{} is not a protocol: use TCP or UDP", shown(other)),
            );
            None
        }
    }
}

/// TCP, UDP or SCTP; TCP when nothing is said.
pub(super) fn ip_protocol(
    name: Option<&str>,
    field: &str,
    findings: &mut Findings,
) -> Option<IpProtocol> {
    match name.unwrap_or("TCP") {
        "TCP" => Some(IpProtocol::Tcp),
        "UDP" => Some(IpProtocol::Udp),
        "SCTP" => Some(IpProtocol::Sctp),
        other => {
            findings.invalid(
                field,
                format!("{} is not a protocol: use TCP, UDP or SCTP", shown(other)),
            );
            None
        }
    }
}

/// A label's value, or "".
pub(super) fn label<'a>(metadata: &'a ObjectMeta, name: &str) -> &'a str {
    metadata
        .labels
        .as_ref()
        .and_then(|l| l.get(name))
        .map_or("", String::as_str)
}

/// A time of RFC 3339 in Unix seconds.
pub(super) fn time(text: &str) -> Option<i64> {
    let time: Time = serde_json::from_value(text.into()).ok()?;
    Some(time.0.as_second())
}

/// `metadata.creationTimestamp` in Unix seconds.
pub(super) fn created(metadata: &ObjectMeta) -> Option<i64> {
    metadata
        .creation_timestamp
        .as_ref()
        .map(|t| t.0.as_second())
}
