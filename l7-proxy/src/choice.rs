//! Which Envoy the operator wants.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where setup puts an Envoy for nodes that have none on their PATH.
pub const INSTALLED: &str = "/usr/local/lib/weft/envoy";

/// Value of `--envoy`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum EnvoyChoice {
    /// `envoy` on PATH, then [`INSTALLED`]; none of them is no error.
    #[default]
    Auto,
    /// No layer 7 on this node.
    None,
    /// This one and no other.
    Path(PathBuf),
}

impl FromStr for EnvoyChoice {
    type Err = Infallible;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Ok(match s {
            "auto" => Self::Auto,
            "none" => Self::None,
            path => Self::Path(path.into()),
        })
    }
}

impl fmt::Display for EnvoyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}
