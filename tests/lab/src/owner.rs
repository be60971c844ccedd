//! Whose lab it is: how a lab whose owner was killed is told from one in use.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::{LabError, Result};

/// Every lab has a directory of its name here.
pub(crate) const LABS_DIR: &str = "/run/weft-lab";

/// Holds off other labs that start or sweep at the same moment, also in other processes, while it lives.
pub(crate) struct Lock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

impl Lock {
    pub(crate) fn take() -> Result<Self> {
        fs::create_dir_all(LABS_DIR).map_err(LabError::io("create", LABS_DIR))?;
        let path = PathBuf::from(LABS_DIR).join(".lock");
        let file = File::create(&path).map_err(LabError::io("create", &path))?;
        file.lock().map_err(LabError::io("lock", &path))?;
        Ok(Self(file))
    }
}

/// Writes this process down as owner of the lab in `dir`.
pub(crate) fn record(dir: &Path) -> Result<()> {
    let path = dir.join("owner");
    let pid = std::process::id();
    let start = start_time(pid).unwrap_or_default();
    fs::write(&path, format!("{pid} {start}\n")).map_err(LabError::io("write", &path))
}

/// Names of the labs whose owner lives no more. Call with the [`Lock`] held: a lab being made has no owner yet.
pub(crate) fn abandoned() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(LABS_DIR).map_err(LabError::io("list", LABS_DIR))? {
        let entry = entry.map_err(LabError::io("list", LABS_DIR))?;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && !has_living_owner(&entry.path()) {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

fn has_living_owner(dir: &Path) -> bool {
    let Ok(text) = fs::read_to_string(dir.join("owner")) else {
        return false;
    };
    let mut words = text.split_whitespace();
    let (Some(pid), Some(start)) = (words.next(), words.next()) else {
        return false;
    };
    let Ok(pid) = pid.parse() else { return false };
    // The start time tells the owner from a later process with the same pid.
    start_time(pid).is_some_and(|now| now == start)
}

/// When process `pid` started, in clock ticks since boot; none when it is gone or a zombie.
fn start_time(pid: u32) -> Option<String> {
    parse_start_time(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_start_time(stat: &str) -> Option<String> {
    // The second field, the command, may hold spaces and brackets: count from its end.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_the_22nd_field_even_with_a_strange_command() {
        let stat =
            "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 424242 1000 200 184467\n";
        assert_eq!(parse_start_time(stat).as_deref(), Some("424242"));
        assert_eq!(parse_start_time(&stat.replace(" S ", " Z ")), None);
        assert_eq!(parse_start_time("nonsense"), None);
    }

    #[test]
    fn this_process_is_alive() {
        assert!(start_time(std::process::id()).is_some());
    }
}
