//! Puts the programs on their hooks, in place of those of an earlier agent.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{Link, ProgramMut, ProgramType};
use rustix::fs::statfs;

use super::load::failed;
use super::{BpfError, Loaded};

/// `CGROUP2_SUPER_MAGIC` of linux/magic.h.
const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// One program and whether it is on its hook.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// Name of the program.
    pub program: String,
    /// ELF section, which names the hook: "cgroup/connect4".
    pub hook: String,
    /// Why it is not attached.
    pub error: Option<String>,
}

/// Attaches all cgroup programs to `cgroup` and pins their links. A program that is attached there already, by an earlier agent,
/// is replaced in one step: no connect sees a gap.
///
/// # Errors
/// When `cgroup` is no cgroup v2 directory. A program that cannot be attached is reported in its [`Attachment`].
pub fn attach(loaded: &mut Loaded, cgroup: &Path) -> Result<Vec<Attachment>, BpfError> {
    let target = Target::open(cgroup)?;
    let links = loaded.pins.links();
    Ok(loaded
        .programs()
        .filter(|program| is_cgroup_program(program.prog_type()))
        .map(|program| {
            let name = program.name().to_string_lossy().into_owned();
            Attachment {
                hook: program.section().to_string_lossy().into_owned(),
                error: target
                    .attach(&program, &links.join(&name))
                    .err()
                    .map(|e| e.to_string()),
                program: name,
            }
        })
        .collect())
}

const fn is_cgroup_program(kind: ProgramType) -> bool {
    matches!(
        kind,
        ProgramType::CgroupSockAddr | ProgramType::CgroupSock | ProgramType::SockOps
    )
}

struct Target {
    directory: File,
    /// The kernel's number of the cgroup, which is the inode number.
    id: u64,
}

impl Target {
    fn open(cgroup: &Path) -> Result<Self, BpfError> {
        let path = cgroup.display().to_string();
        let io = |source| BpfError::Cgroup {
            path: path.clone(),
            source,
        };
        let directory = File::open(cgroup).map_err(io)?;
        let stat = statfs(cgroup).map_err(|e| io(e.into()))?;
        if stat.f_type != CGROUP2_MAGIC {
            return Err(BpfError::NotCgroup2 { path });
        }
        let id = directory.metadata().map_err(io)?.ino();
        Ok(Self { directory, id })
    }

    fn attach(&self, program: &ProgramMut<'_>, pin: &Path) -> Result<(), BpfError> {
        if self.replace(program, pin) {
            return Ok(());
        }
        // Attached before the old one goes: both run for a moment, which does no harm, as the first leaves a pod address.
        let mut link = program
            .attach_cgroup(self.directory.as_raw_fd())
            .map_err(failed("attaching"))?;
        let _ = fs::remove_file(pin);
        link.pin(pin).map_err(failed("pinning the link"))?;
        Ok(())
    }

    /// Puts the program in the place of the pinned one; false if there is none, or it is on another cgroup or a removed one.
    fn replace(&self, program: &ProgramMut<'_>, pin: &Path) -> bool {
        let Ok(mut link) = Link::open(pin) else {
            return false;
        };
        let here = link.info().is_ok_and(
            |info| matches!(info.info, LinkTypeInfo::Cgroup(cgroup) if cgroup.cgroup_id == self.id),
        );
        here && link.update_prog(program).is_ok()
    }
}
