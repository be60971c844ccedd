//! Finds the cgroup v2 root, in unified and in hybrid layouts.

use std::fs;
use std::path::{Path, PathBuf};

const MOUNTS: &str = "/proc/self/mountinfo";

/// Why there is no default for `--cgroup`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgroupError {
    /// The kernel's list cannot be read.
    #[error("{MOUNTS}: {0}")]
    Read(#[from] std::io::Error),
    /// No such mount.
    #[error(
        "no cgroup v2 hierarchy is mounted: run `mount -t cgroup2 none /sys/fs/cgroup`, or give a folder of one with --cgroup"
    )]
    None,
}

/// `given`, else the root of the cgroup v2 hierarchy.
///
/// # Errors
/// When none was given and none is mounted.
pub(crate) fn root_or(given: Option<&Path>) -> Result<PathBuf, CgroupError> {
    match given {
        Some(path) => Ok(path.to_owned()),
        None => find(&fs::read_to_string(MOUNTS)?).ok_or(CgroupError::None),
    }
}

/// The first mount of type cgroup2 that shows the whole hierarchy; see proc_pid_mountinfo(5).
fn find(mountinfo: &str) -> Option<PathBuf> {
    let mounts = || mountinfo.lines().filter_map(cgroup2_mount);
    // A bind mount shows a part of the hierarchy only: hooks there would miss the rest.
    mounts()
        .find(|mount| mount.root == "/")
        .or_else(|| mounts().next())
        .map(|mount| PathBuf::from(unescape(mount.point)))
}

struct Mount<'a> {
    root: &'a str,
    point: &'a str,
}

fn cgroup2_mount(line: &str) -> Option<Mount<'_>> {
    let (place, kind) = line.split_once(" - ")?;
    if kind.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = place.split(' ').skip(3);
    Some(Mount { root: fields.next()?, point: fields.next()? })
}

/// Blanks and the like stand as a backslash and three octal digits.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part
            .get(..3)
            .and_then(|octal| u8::from_str_radix(octal, 8).ok());
        match (code, part.get(3..)) {
            (Some(code), Some(rest)) => {
                text.push(char::from(code));
                text.push_str(rest);
            }
            _ => {
                text.push('\\');
                text.push_str(part);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "\
25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw
35 25 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
";
    const HYBRID: &str = "\
33 25 0:28 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
34 33 0:29 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw
36 33 0:31 / /sys/fs/cgroup/cpu rw shared:11 - cgroup cgroup rw,cpu
";

    #[test]
    fn unified_and_hybrid_layouts() {
        assert_eq!(find(UNIFIED), Some("/sys/fs/cgroup".into()));
        assert_eq!(find(HYBRID), Some("/sys/fs/cgroup/unified".into()));
    }

    #[test]
    fn v1_alone_has_none() {
        assert_eq!(find("36 33 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"), None);
        assert_eq!(find(""), None);
        assert_eq!(find("nonsense - cgroup2\n"), None);
    }

    #[test]
    fn the_whole_hierarchy_wins_over_a_part_of_it() {
        let lines = "\
40 1 0:30 /kubepods /var/part rw - cgroup2 cgroup2 rw
41 1 0:30 / /mnt/whole rw - cgroup2 cgroup2 rw
";
        assert_eq!(find(lines), Some("/mnt/whole".into()));
    }

    #[test]
    fn blanks_in_paths() {
        let line = "40 1 0:30 / /mnt/with\\040blank\\134x rw - cgroup2 cgroup2 rw\n";
        assert_eq!(find(line), Some("/mnt/with blank\\x".into()));
    }
}
