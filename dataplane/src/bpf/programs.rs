//! The loaded programs, as the kernel counts their runs.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use libbpf_rs::Program;
use libbpf_rs::query::ProgInfoIter;

use super::Loaded;
use crate::metrics::ProgramRuns;

/// Names of programs by their ids.
#[derive(Debug, Default)]
pub(super) struct Programs(BTreeMap<u32, String>);

impl Programs {
    pub(super) fn of(loaded: &Loaded) -> Self {
        let named = loaded.programs().filter_map(|program| {
            let id = Program::id_from_fd(program.as_fd()).ok()?;
            Some((id, program.name().to_string_lossy().into_owned()))
        });
        Self(named.collect())
    }

    /// What the kernel has counted so far. Those that are gone are left out.
    pub(super) fn runs(&self) -> Vec<ProgramRuns> {
        let ours = ProgInfoIter::default().filter_map(|info| {
            Some(ProgramRuns {
                name: self.0.get(&info.id)?.clone(),
                runs: info.run_cnt,
                nanos: info.run_time_ns,
            })
        });
        ours.collect()
    }
}
