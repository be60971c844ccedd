//! Value of `--map-size`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// How many entries a map is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapSize {
    /// Name of the map, as `weft status` lists it.
    pub(crate) map: String,
    /// Most entries.
    pub(crate) entries: NonZeroU32,
}

impl FromStr for MapSize {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (map, entries) = s
            .split_once('=')
            .filter(|(map, _)| !map.is_empty())
            .ok_or("give NAME=ENTRIES, as in services=10000")?;
        let entries = entries.parse().map_err(|_| {
            format!(
                "{entries:?} is not a number of entries: give 1 to {}",
                u32::MAX
            )
        })?;
        Ok(Self {
            map: map.to_owned(),
            entries,
        })
    }
}

impl fmt::Display for MapSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.map, self.entries)
    }
}
