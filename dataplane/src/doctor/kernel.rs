//! What the kernel's BPF can do.

use std::path::Path;
use std::sync::LazyLock;

use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{MapType, ProgramType};

use super::Feature;
use crate::{bpf, close};

pub(super) fn probe() -> Vec<Feature> {
    let mut features = vec![btf()];
    features.extend(PROGRAM_TYPES.iter().map(program_type));
    features.push(socket_storage());
    features.push(tcx());
    features.push(sock_destroy());
    features.push(sock_destroy_netlink());
    features.push(acceleration());
    features.push(trial_load());
    features
}

fn btf() -> Feature {
    const PATH: &str = "/sys/kernel/btf/vmlinux";
    let available = Path::new(PATH).exists();
    Feature {
        name: "BTF",
        available,
        required: true,
        detail: if available { PATH } else { "not there" }.into(),
        without: "programs cannot fit themselves to this kernel: it needs CONFIG_DEBUG_INFO_BTF",
    }
}

const PROGRAM_TYPES: [(ProgramType, &str, &str); 4] = [
    (
        ProgramType::CgroupSockAddr,
        "cgroup socket address hooks",
        "services cannot be translated at connect time: it needs CONFIG_CGROUP_BPF",
    ),
    (
        ProgramType::SockOps,
        "sockops",
        "open connections cannot be counted: it needs CONFIG_CGROUP_BPF",
    ),
    (
        ProgramType::CgroupSock,
        "cgroup socket hooks",
        "the end of UDP sockets is not seen: it needs CONFIG_CGROUP_BPF",
    ),
    (
        ProgramType::SchedCls,
        "tc classifiers",
        "nothing judges what crosses pods' interfaces: it needs CONFIG_NET_CLS_ACT and CONFIG_NET_CLS_BPF",
    ),
];

fn program_type((kind, name, without): &(ProgramType, &'static str, &'static str)) -> Feature {
    let supported = kind.is_supported();
    Feature {
        name,
        available: matches!(supported, Ok(true)),
        required: true,
        detail: supported.err().map(|e| e.to_string()).unwrap_or_default(),
        without,
    }
}

fn socket_storage() -> Feature {
    let supported = MapType::SkStorage.is_supported();
    Feature {
        name: "socket storage",
        available: matches!(supported, Ok(true)),
        required: true,
        detail: supported.err().map(|e| e.to_string()).unwrap_or_default(),
        without: "sockets cannot remember their service: it needs CONFIG_NET and CONFIG_BPF_SYSCALL of Linux 5.2",
    }
}

/// Whether sockets can be closed by an iterator (Linux 6.5).
pub(crate) fn has_sock_destroy() -> bool {
    TYPES.sock_destroy
}

/// Whether programs can be links of an interface (Linux 6.6).
pub(crate) fn has_tcx() -> bool {
    TYPES.tcx
}

/// Whether routes can be looked up without their next hop's link address (Linux 6.3).
pub(crate) fn has_route_only_lookup() -> bool {
    const SINCE: [u32; 2] = [6, 3];
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse().ok());
    let here = [numbers.next(), numbers.next()].map(Option::unwrap_or_default);
    here >= SINCE
}

/// What the kernel's type information tells of it. Reading it takes milliseconds: once is enough.
struct Types {
    sock_destroy: bool,
    tcx: bool,
    /// Whether what a reader has not read yet of redirected messages is counted.
    msg_tot_len: bool,
    /// Whether programs may look into a socket whose address they know.
    rdonly_cast: bool,
}

static TYPES: LazyLock<Types> = LazyLock::new(|| match Btf::from_vmlinux() {
    Ok(btf) => Types {
        sock_destroy: has_function(&btf, "bpf_sock_destroy"),
        tcx: has_function(&btf, "tcx_link_attach"),
        msg_tot_len: has_member(&btf, "sk_psock", "msg_tot_len"),
        rdonly_cast: has_function(&btf, "bpf_rdonly_cast"),
    },
    Err(_) => Types {
        sock_destroy: false,
        tcx: false,
        msg_tot_len: false,
        rdonly_cast: false,
    },
});

fn has_function(btf: &Btf<'_>, name: &str) -> bool {
    btf.type_by_name::<types::Func<'_>>(name).is_some()
}

fn has_member(btf: &Btf<'_>, of: &str, member: &str) -> bool {
    btf.type_by_name::<types::Struct<'_>>(of)
        .is_some_and(|found| found.iter().any(|m| m.name.is_some_and(|n| n == member)))
}

fn tcx() -> Feature {
    let available = has_tcx();
    Feature {
        name: "tcx",
        available,
        required: false,
        detail: if available {
            "pod programs are links"
        } else {
            "pod programs are tc filters"
        }
        .into(),
        without: "pod programs are filters of a clsact qdisc, which other tools can remove: they are put back within 5 s",
    }
}

fn sock_destroy() -> Feature {
    let available = has_sock_destroy();
    Feature {
        name: "bpf_sock_destroy",
        available,
        required: false,
        detail: if available {
            "closes by iterator"
        } else {
            "closes over netlink"
        }
        .into(),
        without: "connections of removed backends, and those that a policy forbids, are closed over netlink instead: slower where a pod has many",
    }
}

fn sock_destroy_netlink() -> Feature {
    let result = close::probe_netlink();
    Feature {
        name: "SOCK_DESTROY",
        available: result.is_ok(),
        required: !has_sock_destroy(),
        detail: result.err().map(|e| e.to_string()).unwrap_or_default(),
        without: "without bpf_sock_destroy too, connections of removed backends, and those that a policy forbids, stay open: it needs CONFIG_INET_DIAG_DESTROY",
    }
}

/// How it is known what a reader of redirected messages has not read yet; why it is not.
///
/// The kernels that count it are also those whose `FIONREAD` counts these bytes.
pub(crate) fn unread_bytes() -> Result<&'static str, &'static str> {
    let sockmap = MapType::Sockhash.is_supported();
    if !matches!(sockmap, Ok(true)) || !matches!(ProgramType::SkMsg.is_supported(), Ok(true)) {
        return Err("this kernel has no sockmap: it needs CONFIG_BPF_STREAM_PARSER");
    }
    if !TYPES.msg_tot_len {
        return Err(
            "this kernel does not tell how many redirected bytes are unread, and FIONREAD would be wrong",
        );
    }
    if !TYPES.rdonly_cast {
        return Err("this kernel has no bpf_rdonly_cast(): it needs Linux 6.2");
    }
    Ok("unread bytes from sk_psock.msg_tot_len")
}

fn acceleration() -> Feature {
    let way = unread_bytes();
    Feature {
        name: "same-node acceleration",
        available: way.is_ok(),
        required: false,
        detail: way.unwrap_or_else(|why| why).into(),
        without: "connections between pods of this node go through TCP as all others do",
    }
}

fn trial_load() -> Feature {
    let result = bpf::trial_load(unread_bytes().is_ok());
    Feature {
        name: "programs load",
        available: result.is_ok(),
        required: true,
        detail: match result {
            Ok(count) => format!("all {count}"),
            Err(e) => e.to_string(),
        },
        without: "the agent does not start",
    }
}
