//! `weft conntrack`.

use std::time::Duration;

use weft_proto::wire::admin::v1::Connection;
use weft_proto::wire::flow::v1::Traffic;

use super::flows::end;
use super::{Style, Table};

/// One row per connection.
pub(crate) fn connections(list: &[Connection], style: Style) -> String {
    let mut table = Table::new(
        style,
        [
            "PROTOCOL",
            "STATE",
            "FROM",
            "TO",
            "SERVICE",
            "#SENT",
            "#RECEIVED",
            "#AGE",
            "#EXPIRES IN",
        ],
    );
    for connection in list {
        let Traffic { sent, received } = connection.bytes.unwrap_or_default();
        table.row([
            connection.protocol.clone(),
            connection.state.clone(),
            end(connection.source.as_ref()),
            end(connection.destination.as_ref()),
            connection.service.clone(),
            sent.to_string(),
            received.to_string(),
            seconds(connection.age_ms),
            seconds(connection.expires_in_ms),
        ]);
    }
    table.text()
}

fn seconds(milliseconds: u64) -> String {
    let whole = Duration::from_secs(milliseconds / 1_000);
    humantime::format_duration(whole).to_string()
}
