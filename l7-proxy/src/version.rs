//! Envoy's version, as `envoy --version` prints it.

use std::fmt;
use std::str::FromStr;

/// Release of an Envoy binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

/// Text that is not the output of `envoy --version`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no version like \"envoy  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL\" in {0:?}")]
pub struct ParseVersionError(String);

impl Version {
    /// Reads the output of `envoy --version`.
    ///
    /// # Errors
    /// When there is no such line.
    pub fn from_output(output: &str) -> Result<Self, ParseVersionError> {
        output
            .lines()
            .filter_map(|line| line.split_once(" version: "))
            .find_map(|(_, build)| build.split('/').find_map(|part| part.parse().ok()))
            .ok_or_else(|| ParseVersionError(output.chars().take(200).collect()))
    }
}

impl FromStr for Version {
    type Err = ParseVersionError;

    /// Reads `1.40.0` or `1.40.0-dev`.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let numbers = s.split_once('-').map_or(s, |(numbers, _)| numbers);
        let parts: Option<Vec<u32>> = numbers.split('.').map(|n| n.parse().ok()).collect();
        match parts.as_deref() {
            Some(&[major, minor, patch]) => Ok(Self {
                major,
                minor,
                patch,
            }),
            _ => Err(ParseVersionError(s.to_owned())),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\nenvoy  version: 0123456789abcdef0123456789abcdef01234567/1.40.0/Clean/RELEASE/BoringSSL\n\n";

    #[test]
    fn reads_a_release() {
        let version = Version::from_output(OUTPUT).expect("a version");
        assert_eq!((version.major, version.minor, version.patch), (1, 40, 0));
        assert_eq!(version.to_string(), "1.40.0");
    }

    #[test]
    fn reads_a_development_build() {
        let version =
            Version::from_output("envoy version: abc/1.41.2-dev/Modified/DEBUG/BoringSSL");
        assert_eq!(version.map(|v| v.to_string()), Ok("1.41.2".to_owned()));
    }

    #[test]
    fn orders_by_number_not_by_text() {
        let parse = |s: &str| s.parse::<Version>().expect("a version");
        assert!(parse("1.9.0") < parse("1.40.0"));
    }

    #[test]
    fn refuses_other_programs() {
        for output in [
            "",
            "GNU coreutils 9.1",
            "envoy version: ",
            "envoy  version: a/1.40/Clean",
        ] {
            assert!(Version::from_output(output).is_err(), "{output:?}");
        }
    }
}
