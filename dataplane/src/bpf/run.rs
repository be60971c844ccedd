//! Programs that the agent runs itself: they are never attached.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::abi::{run, run_on};
use super::{BpfError, BpfTable, Loaded, types};
use crate::check::{CheckProgram, Judged, Judgement, Packet};
use crate::conntrack::{SweepProgram, Swept};
use crate::flow::Reason;
use crate::tables::{Table, address};

/// A pass over all connections.
pub struct Sweep {
    program: OwnedFd,
    answer: BpfTable<u32, Swept>,
}

/// A question about a packet.
pub struct Check {
    program: OwnedFd,
}

impl Loaded {
    pub(super) fn sweep(&self) -> Result<Sweep, BpfError> {
        Ok(Sweep {
            program: self.program_fd("weft_sweep")?,
            answer: BpfTable::new("sweeps", self.map("sweeps")?)?,
        })
    }

    pub(super) fn check(&self) -> Result<Check, BpfError> {
        let program = self.program_fd("weft_check")?;
        Ok(Check { program })
    }

    fn program_fd(&self, name: &'static str) -> Result<OwnedFd, BpfError> {
        let program = self.programs().find(|p| p.name() == name);
        let program = program.ok_or(BpfError::UnknownProgram(name))?;
        let fd = program.as_fd().try_clone_to_owned();
        fd.map_err(BpfError::Descriptor)
    }
}

impl SweepProgram for Sweep {
    fn sweep(&mut self) -> io::Result<Swept> {
        run(self.program.as_fd())?;
        let answer = self.answer.get(&0).map_err(io::Error::other)?;
        Ok(answer.unwrap_or_default())
    }
}

impl CheckProgram for Check {
    fn check(&self, packet: &Packet) -> io::Result<Judged> {
        let question = types::check {
            source: address::to_raw(packet.source.ip()),
            destination: address::to_raw(packet.destination.ip()),
            source_port: packet.source.port().to_be(),
            destination_port: packet.destination.port().to_be(),
            protocol: packet.protocol,
            ..Default::default()
        };
        let answer = run_on(self.program.as_fd(), &question)?;
        Ok(Judged {
            source_identity: answer.source_identity,
            destination_identity: answer.destination_identity,
            egress: (answer.egress_known != 0).then(|| judgement(&answer.egress)),
            ingress: (answer.ingress_known != 0).then(|| judgement(&answer.ingress)),
        })
    }
}

fn judgement(rule: &types::rule) -> Judgement {
    let verdict = types::verdict(rule.verdict.into());
    let by_proxy = verdict == types::verdict::VERDICT_PROXY;
    Judgement {
        allowed: verdict == types::verdict::VERDICT_ALLOW || by_proxy,
        by_proxy,
        reason: Reason::from_raw(rule.reason),
        rule: rule.id,
        audit: rule.audit,
    }
}
