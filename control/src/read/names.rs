//! Which names Kubernetes allows.
//!
//! See <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>.

/// RFC 1123 label: lower-case letters, digits and "-", at most 63, beginning and ending in a letter or digit.
pub(super) fn check_label(name: &str) -> Result<(), String> {
    if is_label(name) && name.len() <= 63 {
        return Ok(());
    }
    Err(format!(
        "{} is not a DNS-1123 label: use at most 63 lower-case letters, digits or \"-\", beginning and ending in a letter or digit",
        shown(name)
    ))
}

/// RFC 1123 subdomain: labels joined by ".", at most 253 in all.
pub(super) fn check_subdomain(name: &str) -> Result<(), String> {
    if name.len() <= 253 && name.split('.').all(is_label) {
        return Ok(());
    }
    Err(format!(
        "{} is not a DNS-1123 subdomain: use at most 253 lower-case letters, digits, \"-\" or \".\", beginning and ending in a letter or digit",
        shown(name)
    ))
}

fn is_label(name: &str) -> bool {
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
}

/// `text` quoted and escaped, cut to what fits on a line.
pub(super) fn shown(text: &str) -> String {
    const MAX: usize = 80;
    if text.chars().count() <= MAX {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(MAX).collect();
    format!("{start:?}… ({} bytes)", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_as_kubernetes_takes_them() {
        for good in ["a", "0", "cart", "a-b", "a--b", &"x".repeat(63)] {
            assert!(check_label(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a_b",
            "a.b",
            "ä",
            "a/b",
            " a",
            "a\n",
            "a\0",
            &"x".repeat(64),
        ] {
            assert!(check_label(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn subdomains_as_kubernetes_takes_them() {
        for good in [
            "a.b",
            "ip-10-0-0-1.ec2.internal",
            "0.1",
            &format!("a.{}", "x".repeat(251)),
        ] {
            assert!(check_subdomain(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a.-b",
            "a.B",
            &format!("a.{}", "x".repeat(252)),
        ] {
            assert!(check_subdomain(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_long_name_does_not_flood_the_log() {
        let message = check_subdomain(&"X".repeat(1_000_000)).unwrap_err();
        assert!(message.len() < 400, "{}", message.len());
    }
}
