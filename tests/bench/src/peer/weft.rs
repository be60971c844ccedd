//! Weft: the control plane over a folder of manifests or an API server, and the node agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;
use weft_lab::{Lab, Node, Process};

use super::{Buckets, Proxy};
use crate::kubernetes::ControlPlane;
use crate::objects;
use crate::plan::Plan;
use crate::usage::Usage;

/// The kernel takes an agent's maps and programs apart in the background: an empty node is one where that is over.
const FREED_AFTER: Duration = Duration::from_secs(2);

/// Services in one manifest file.
const PER_FILE: u32 = 100;
const CONTROL: &str = "127.0.0.1:15010";
const METRICS: &str = "http://127.0.0.1:15020/metrics";
/// Histogram of the time from an update's arrival to its being in the maps.
const APPLY: &str = "weft_sync_apply_seconds_bucket";
/// Patience with the first, uncounted start.
const WARM_UP: Duration = Duration::from_secs(300);

/// Weft on one node.
pub struct Weft {
    program: PathBuf,
    manifests: PathBuf,
    node: Node,
    plan: Plan,
    /// Where the services are; `None`: in the folder.
    plane: Option<Rc<ControlPlane>>,
    control: Option<Process>,
    agent: Option<Process>,
    /// `weft status --wait`, running until the agent is ready.
    waiting: Option<Process>,
}

impl Weft {
    /// Writes the manifests, unless there is an API server that has them.
    pub fn new(
        program: PathBuf,
        lab: &Lab,
        node: &Node,
        plan: Plan,
        plane: Option<Rc<ControlPlane>>,
    ) -> Result<Self> {
        let manifests = lab.dir().join(format!("bench-manifests-{}", node.name()));
        fs::create_dir(&manifests).context("making the folder of manifests")?;
        let weft = Self {
            program,
            manifests,
            node: node.clone(),
            plan,
            plane,
            control: None,
            agent: None,
            waiting: None,
        };
        if weft.plane.is_none() {
            weft.write_manifests()?;
        }
        Ok(weft)
    }

    fn write_manifests(&self) -> Result<()> {
        let plan = &self.plan;
        let node = objects::node(self.node.name(), &self.node.addresses().both());
        self.write(
            "base",
            [objects::namespace(), node, objects::moving_service(plan)],
        )?;
        self.write(objects::MOVING, [objects::moving_slice(plan, 0)])?;
        for first in (0..plan.services).step_by(PER_FILE as usize) {
            let some = first..(first + PER_FILE).min(plan.services);
            let objects =
                some.flat_map(|index| [objects::service(plan, index), objects::slice(plan, index)]);
            self.write(&format!("services-{first:05}"), objects)?;
        }
        Ok(())
    }

    /// Writes a file in one step, so that no reader sees half of it. JSON documents
    /// are YAML documents.
    fn write(&self, name: &str, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        let text: String = objects
            .into_iter()
            .map(|object| format!("---\n{object}\n"))
            .collect();
        let path = self.manifests.join(format!("{name}.yaml"));
        let partial = self.manifests.join(format!(".{name}.partial"));
        fs::write(&partial, text)
            .and_then(|()| fs::rename(&partial, &path))
            .with_context(|| format!("writing {}", path.display()))
    }

    fn spawn_agent(&self) -> Result<Process> {
        let process = self
            .node
            .agent_place()
            .command(&self.program)
            .args(["agent", "--control", CONTROL, "--node", self.node.name()])
            .args([Path::new("--cgroup"), self.node.cgroup()])
            .args([Path::new("--bpffs"), self.node.bpffs()])
            .args([Path::new("--run-dir"), self.node.run_dir()])
            .args(["--uplink", self.node.uplink(), "--envoy", "none"])
            .spawn()?;
        Ok(process)
    }

    fn spawn_wait(&self) -> Result<Process> {
        let seconds = WARM_UP.as_secs().to_string();
        let command = self
            .node
            .command(&self.program)
            .args(["status", "--wait", &seconds]);
        Ok(command
            .args([Path::new("--run-dir"), self.node.run_dir()])
            .spawn()?)
    }

    fn cleanup(&self) -> Result<()> {
        let cleanup = self
            .node
            .command(&self.program)
            .arg("cleanup")
            .args([Path::new("--cgroup"), self.node.cgroup()])
            .args([Path::new("--bpffs"), self.node.bpffs()]);
        cleanup.run(Duration::from_secs(60))?.success()?;
        Ok(())
    }
}

impl Proxy for Weft {
    /// Starts the control plane, and an agent once, which is removed again: so that
    /// the control plane has surely read all manifests before the start that counts.
    fn prepare(&mut self) -> Result<()> {
        let control = self
            .node
            .command(&self.program)
            .args(["control", "--listen", CONTROL])
            .env("WEFT_CA_DIR", self.node.run_dir().join("ca"));
        let control = match &self.plane {
            Some(plane) => control.arg("--kubeconfig").arg(plane.kubeconfig()),
            None => control.arg("--manifests").arg(&self.manifests),
        };
        self.control = Some(control.spawn()?);
        let mut agent = self.spawn_agent()?;
        self.spawn_wait()?
            .finish(WARM_UP + Duration::from_secs(5))?
            .success()
            .with_context(|| format!("the agent did not get ready:\n{}", agent.stderr()))?;
        agent.terminate();
        ensure!(
            agent.wait(Duration::from_secs(30))?.is_some(),
            "the agent does not end within 30 s of SIGTERM"
        );
        self.cleanup()?;
        sleep(FREED_AFTER);
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        self.agent = Some(self.spawn_agent()?);
        self.waiting = Some(self.spawn_wait()?);
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        for (name, process) in [("control", &mut self.control), ("agent", &mut self.agent)] {
            let process = process
                .as_mut()
                .with_context(|| format!("no weft {name}"))?;
            ensure!(
                process.is_running(),
                "weft {name} has ended:\n{}",
                process.stderr()
            );
        }
        Ok(())
    }

    fn ready(&mut self) -> Option<bool> {
        self.waiting.as_mut().map(|waiting| !waiting.is_running())
    }

    fn move_service(&mut self, changes: u32) -> Result<()> {
        if let Some(plane) = &self.plane {
            return plane.move_service(&self.plan, changes);
        }
        self.write(
            objects::MOVING,
            [objects::moving_slice(&self.plan, changes)],
        )
    }

    fn usage(&self) -> Result<Usage> {
        Usage::of(self.agent.as_ref().context("no weft agent")?.pid())
    }

    fn applied(&self) -> Option<Buckets> {
        let scrape = || {
            ureq::get(METRICS)
                .call()
                .ok()?
                .body_mut()
                .read_to_string()
                .ok()
        };
        let text = self.node.netns().run(scrape).ok()??;
        let buckets = parse_buckets(&text);
        (!buckets.is_empty()).then_some(buckets)
    }

    fn freeze(&self, frozen: bool) {
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        for process in [&self.control, &self.agent].into_iter().flatten() {
            process.signal(signal);
        }
    }
}

/// The buckets of [`APPLY`] in a Prometheus text, whatever its other labels.
fn parse_buckets(text: &str) -> Buckets {
    let mut buckets = Buckets::new();
    for line in text.lines().filter(|line| line.starts_with(APPLY)) {
        let bound = line
            .split_once("le=\"")
            .and_then(|(_, rest)| rest.split_once('"'));
        let count = line
            .split_once('}')
            .and_then(|(_, rest)| rest.split_whitespace().next());
        let (Some((bound, _)), Some(count)) = (bound, count) else {
            continue;
        };
        let bound = if bound == "+Inf" {
            Ok(f64::INFINITY)
        } else {
            bound.parse()
        };
        let (Ok(bound), Ok(count)) = (bound, count.parse::<f64>()) else {
            continue;
        };
        match buckets.iter_mut().find(|(known, _)| *known == bound) {
            Some((_, total)) => *total += count as u64,
            None => buckets.push((bound, count as u64)),
        }
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_the_buckets_of_all_labels() {
        let text = "\
# TYPE weft_sync_apply_seconds histogram
weft_sync_apply_seconds_bucket{type=\"cds\",le=\"0.001\"} 3
weft_sync_apply_seconds_bucket{type=\"eds\",le=\"0.001\"} 4
weft_sync_apply_seconds_bucket{type=\"eds\",le=\"+Inf\"} 9
weft_sync_apply_seconds_sum 0.1
";
        assert_eq!(parse_buckets(text), vec![(0.001, 7), (f64::INFINITY, 9)]);
    }
}
