//! Rights and mounts.

use std::fs;
use std::path::PathBuf;

use rustix::process::geteuid;
use rustix::system::uname;

use super::Feature;

pub(super) const CGROUP2: &str = "/sys/fs/cgroup";
const BPFFS: &str = "/sys/fs/bpf";

pub(super) fn probe() -> Vec<Feature> {
    let mount = |kind: &str, usual: &str| {
        let path = mount_of(kind, usual);
        let detail = path
            .as_ref()
            .map_or("not mounted".into(), |p| p.display().to_string());
        (path.is_some(), detail)
    };
    let (cgroup2, cgroup2_at) = mount("cgroup2", CGROUP2);
    let (bpffs, bpffs_at) = mount("bpf", BPFFS);
    vec![
        Feature {
            name: "Linux",
            available: true,
            required: true,
            detail: uname().release().to_string_lossy().into_owned(),
            without: "",
        },
        Feature {
            name: "root",
            available: geteuid().is_root(),
            required: true,
            detail: format!("user id {}", geteuid().as_raw()),
            without: "nothing can be loaded: run as root",
        },
        Feature {
            name: "cgroup v2",
            available: cgroup2,
            required: true,
            detail: cgroup2_at,
            without: "socket hooks have nowhere to attach: `mount -t cgroup2 none /sys/fs/cgroup/unified`",
        },
        Feature {
            name: "BPF file system",
            available: bpffs,
            required: true,
            detail: bpffs_at,
            without: "nothing outlives the agent: `mount -t bpf bpf /sys/fs/bpf`",
        },
        forwarding(),
    ]
}

/// Whether this network namespace forwards packets, as a node of a cluster has to.
fn forwarding() -> Feature {
    let is_on = |path: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
    let ipv4 = is_on("/proc/sys/net/ipv4/ip_forward");
    let ipv6 = is_on("/proc/sys/net/ipv6/conf/all/forwarding");
    Feature {
        name: "packet forwarding",
        available: ipv4,
        required: false,
        detail: match (ipv4, ipv6) {
            (true, true) => "IPv4 and IPv6",
            (true, false) => "IPv4",
            (false, true) => "IPv6 alone",
            (false, false) => "off",
        }
        .to_owned(),
        without: "pods and clients outside are not reached through this node: `sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1`",
    }
}

/// Where a file system of this type is mounted: at the usual place if it is, else the first (proc_pid_mountinfo(5)).
pub(super) fn mount_of(kind: &str, usual: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let points: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| mount_point(line, kind))
        .collect();
    points
        .iter()
        .find(|point| point.as_os_str() == usual)
        .or_else(|| points.first())
        .cloned()
}

fn mount_point(line: &str, kind: &str) -> Option<PathBuf> {
    let (mount, filesystem) = line.split_once(" - ")?;
    if filesystem.split(' ').next()? != kind {
        return None;
    }
    Some(unescape(mount.split(' ').nth(4)?).into())
}

/// Space, tab, newline and backslash stand there as octal escapes.
fn unescape(path: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .into_iter()
    .fold(path.to_owned(), |path, (escaped, plain)| {
        path.replace(escaped, plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_mount_point_by_type() {
        let line = "42 35 0:30 / /sys/fs/cgroup/uni\\040fied rw,nosuid shared:9 - cgroup2 none rw";
        assert_eq!(
            mount_point(line, "cgroup2"),
            Some(PathBuf::from("/sys/fs/cgroup/uni fied"))
        );
        assert_eq!(mount_point(line, "bpf"), None);
        assert_eq!(mount_point("nonsense", "bpf"), None);
    }
}
