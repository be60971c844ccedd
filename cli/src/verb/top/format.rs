//! Numbers in few characters.

/// A rate or count: "0", "0.4", "12", "1.2k", "3.4M".
pub(super) fn count(value: f64) -> String {
    scaled(value, 1_000.0, ["", "k", "M", "G", "T"])
}

/// Bytes: "12", "1.2K", "3.4M", by 1,024.
pub(super) fn bytes(value: f64) -> String {
    scaled(value, 1_024.0, ["", "K", "M", "G", "T"])
}

fn scaled(value: f64, step: f64, units: [&str; 5]) -> String {
    let (mut value, mut unit) = (value.max(0.0), 0);
    // 999.6 would be "1000".
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let unit = units[unit];
    match value {
        0.0 => format!("0{unit}"),
        _ if value < 9.95 && (!unit.is_empty() || value.fract() != 0.0) => {
            format!("{value:.1}{unit}")
        }
        _ => format!("{value:.0}{unit}"),
    }
}

/// A time, given in microseconds: "80µs", "1.5ms", "2.1s", "3m", "4h".
pub(super) fn micros(value: f64) -> String {
    let units = [
        (1e3, 1.0, "µs"),
        (1e6, 1e3, "ms"),
        (60e6, 1e6, "s"),
        (3_600e6, 60e6, "m"),
    ];
    let found = units.iter().find(|(below, _, _)| value < *below * 0.9995);
    let (_, one, unit) = found.copied().unwrap_or((0.0, 3_600e6, "h"));
    match value / one {
        value if value < 9.95 && unit != "µs" => format!("{value:.1}{unit}"),
        value => format!("{value:.0}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_characters_or_so() {
        for (value, text) in [
            (0.0, "0"),
            (0.04, "0.0"),
            (0.4, "0.4"),
            (3.0, "3"),
            (12.3, "12"),
            (999.7, "1.0k"),
            (20_000.0, "20k"),
            (1_234_567.0, "1.2M"),
        ] {
            assert_eq!(count(value), text, "{value}");
        }
        assert_eq!(bytes(1_536.0), "1.5K");
        assert_eq!(bytes(3.0 * 1_048_576.0), "3.0M");
        for (value, text) in [
            (80.0, "80µs"),
            (1_500.0, "1.5ms"),
            (999_900.0, "1.0s"),
            (12_000_000.0, "12s"),
            (180e6, "3.0m"),
            (2.0 * 3_600e6, "2.0h"),
        ] {
            assert_eq!(micros(value), text, "{value}");
        }
    }
}
