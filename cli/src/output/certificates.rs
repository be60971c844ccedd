//! `weft certificates`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weft_proto::wire::admin::v1::Certificate;

use super::{Style, Table};

/// One row per identity of the node.
pub(crate) fn certificates(list: &[Certificate], style: Style) -> String {
    let titles = [
        "IDENTITY",
        "VALID",
        "SERIAL",
        "ENDS IN",
        "RENEWED IN",
        "#ISSUED",
        "ERROR",
    ];
    let mut table = Table::new(style, titles);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    for certificate in list {
        table.row([
            certificate.id.clone(),
            if certificate.valid { "yes" } else { "no" }.to_owned(),
            certificate.serial.clone(),
            ends_in(certificate, now),
            time(Duration::from_millis(certificate.next_attempt_ms)),
            certificate.issued.to_string(),
            certificate.error.clone(),
        ]);
    }
    table.text()
}

/// Name of an identity, for choosing: `namespace/service account`.
pub(crate) fn name(certificate: &Certificate) -> String {
    format!("{}/{}", certificate.namespace, certificate.service_account)
}

fn ends_in(certificate: &Certificate, now: u64) -> String {
    match u64::try_from(certificate.not_after) {
        Ok(0) | Err(_) => String::new(),
        Ok(end) if end <= now => format!("ended {} ago", time(Duration::from_secs(now - end))),
        Ok(end) => time(Duration::from_secs(end - now)),
    }
}

/// In seconds: more would only be noise.
fn time(duration: Duration) -> String {
    humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string()
}
