//! Running the real `weft` on nodes of the lab.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::wait_any;
use crate::{LabError, Launch, Manifests, Node, Output, Place, Process, Result, tools};

/// How long one CLI call may take on a loaded machine.
const CLI_WITHIN: Duration = Duration::from_secs(60);
/// Lines of its log that an error shows.
const LOG_LINES: usize = 20;
/// How long `weft` may take to end after SIGTERM.
const STOP_WITHIN: Duration = Duration::from_secs(20);

/// Options for starting `weft`, beside those that place it on its node.
#[derive(Debug, Clone, Default)]
pub struct WeftOptions {
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl WeftOptions {
    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets an environment variable, e.g. `RUST_LOG`.
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }
}

/// A `weft` process on a node: `up`, `agent` or `control`.
#[derive(Debug)]
pub struct Weft {
    binary: PathBuf,
    node: Node,
    place: Place,
    words: Vec<OsString>,
    options: WeftOptions,
    process: Process,
}

impl Weft {
    /// Starts `weft up`: control plane and agent of `node` in one process tree, fed from `manifests`.
    ///
    /// # Errors
    /// When the binary is not built or cannot be started. That it runs is not that it is ready: see
    /// [`Weft::wait_ready`].
    pub fn up(node: &Node, manifests: &Manifests, options: WeftOptions) -> Result<Self> {
        let words = words(&["up", "--manifests"]);
        let words = with(words, [manifests.dir().into()]);
        let words = with(words, agent_words(node));
        Self::start(node, node.agent_place(), words, options)
    }

    /// Starts `weft control` on `node`, fed from `manifests`, listening on all its addresses at `port`, for
    /// [`Weft::agent`]s of any node.
    ///
    /// # Errors
    /// As [`Weft::up`].
    pub fn control(
        node: &Node,
        manifests: &Manifests,
        port: u16,
        options: WeftOptions,
    ) -> Result<Self> {
        Self::protected_control(node, manifests, port, options.arg("--insecure"))
    }

    /// As [`Weft::control`], protected as `options` say.
    ///
    /// # Errors
    /// As [`Weft::up`].
    pub fn protected_control(
        node: &Node,
        manifests: &Manifests,
        port: u16,
        options: WeftOptions,
    ) -> Result<Self> {
        let words = words(&["control", "--listen"]);
        let words = with(
            words,
            [format!("0.0.0.0:{port}").into(), "--manifests".into()],
        );
        let words = with(words, [manifests.dir().into()]);
        // By variable, so that a test can give another.
        let ca = node.run_dir().join("control-ca");
        let options = options.env("WEFT_CA_DIR", ca);
        Self::start(node, node.control_place(), words, options)
    }

    /// Starts `weft agent` on `node`, driven by the control plane at `control` (`ADDR:PORT`).
    ///
    /// # Errors
    /// As [`Weft::up`].
    pub fn agent(node: &Node, control: &str, options: WeftOptions) -> Result<Self> {
        Self::protected_agent(node, control, options.arg("--insecure"))
    }

    /// As [`Weft::agent`], protected as `options` say.
    ///
    /// # Errors
    /// As [`Weft::up`].
    pub fn protected_agent(node: &Node, control: &str, options: WeftOptions) -> Result<Self> {
        let words = words(&["agent", "--control", control]);
        let words = with(words, agent_words(node));
        Self::start(node, node.agent_place(), words, options)
    }

    fn start(
        node: &Node,
        place: &Place,
        words: Vec<OsString>,
        options: WeftOptions,
    ) -> Result<Self> {
        let binary = tools::weft()?;
        let process = launch(&binary, place, &words, &options)?;
        Ok(Self {
            binary,
            node: node.clone(),
            place: place.clone(),
            words,
            options,
            process,
        })
    }

    /// Waits until the agent has synced and every program is attached.
    ///
    /// # Errors
    /// When it is not ready within `within` (whole seconds) or has ended, with what `weft status` and its log say.
    pub fn wait_ready(&self, within: Duration) -> Result<()> {
        let seconds = within.as_secs().max(1).to_string();
        let command = cli_command(&self.binary, &self.node, &["status", "--wait", &seconds]);
        let mut status = command.spawn()?;
        // A `weft` that has died will not get ready however long one waits.
        let one_ended = wait_any(&[&status, &self.process], within + CLI_WITHIN);
        let said = if one_ended && status.is_running() {
            format!("`{}` has ended", self.process.command())
        } else {
            let output = status.finish(Duration::ZERO)?;
            if output.status.success() {
                return Ok(());
            }
            format!("{}{}", output.stdout, output.stderr)
        };
        Err(LabError::NotReady {
            node: self.node.name().to_owned(),
            within,
            said,
            log: tail(&self.process.stderr()),
        })
    }

    /// Runs a `weft` verb against this node's agent, e.g. `["services"]`.
    ///
    /// # Errors
    /// When it cannot be run; its exit status is in the output.
    pub fn cli(&self, args: &[&str]) -> Result<Output> {
        cli(&self.node, args)
    }

    /// As [`Weft::cli`] with `-o json`, parsed. The exit status must be 0.
    ///
    /// # Errors
    /// When it fails or prints something else.
    pub fn cli_json(&self, args: &[&str]) -> Result<serde_json::Value> {
        let args = [args, &["-o", "json"]].concat();
        self.cli(&args)?.success()?.json()
    }

    /// The process: its pid, its log.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The node it runs on.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Kills it with SIGKILL: it has no chance to clean anything up.
    pub fn kill9(&mut self) {
        self.process.kill();
    }

    /// Stops it with SIGTERM and waits for its end.
    ///
    /// # Errors
    /// When it does not end in time, or not with status 0.
    pub fn stop(&mut self) -> Result<()> {
        self.process.terminate();
        self.process.finish(STOP_WITHIN)?.success()?;
        Ok(())
    }

    /// Starts it again with the same arguments. What still runs is killed first.
    ///
    /// # Errors
    /// As [`Weft::up`].
    pub fn restart(&mut self) -> Result<()> {
        self.kill9();
        self.process = launch(&self.binary, &self.place, &self.words, &self.options)?;
        Ok(())
    }
}

/// Runs a `weft` verb on `node`, whether or not an agent runs there (e.g. `["cleanup"]`).
///
/// # Errors
/// When the binary is not built or cannot be run; its exit status is in the output.
pub fn cli(node: &Node, args: &[&str]) -> Result<Output> {
    cli_command(&tools::weft()?, node, args).run(CLI_WITHIN)
}

/// `weft cleanup` for what agents of `node` left in the kernel.
///
/// # Errors
/// When it fails.
pub fn cleanup(node: &Node) -> Result<Output> {
    let launch = cli_command(&tools::weft()?, node, &["cleanup", "--bpffs"]);
    launch
        .arg(node.bpffs())
        .arg("--cgroup")
        .arg(node.cgroup())
        .run(CLI_WITHIN)?
        .success()
}

fn cli_command(binary: &Path, node: &Node, args: &[&str]) -> Launch {
    // Not in the agent's cgroup: its memory and CPU time are measured there.
    // By variable, so that a test can still give another `--run-dir`, or a verb have none.
    node.host()
        .command(binary)
        .args(args)
        .env("WEFT_RUN_DIR", node.run_dir())
}

fn launch(
    binary: &Path,
    place: &Place,
    words: &[OsString],
    options: &WeftOptions,
) -> Result<Process> {
    let mut launch = place.command(binary).args(words).args(&options.args);
    // By variable, so that a test can give another.
    launch = launch.env("WEFT_ENVOY", "none");
    for (key, value) in &options.env {
        launch = launch.env(key, value);
    }
    launch.spawn()
}

fn agent_words(node: &Node) -> Vec<OsString> {
    vec![
        "--node".into(),
        node.name().into(),
        "--cgroup".into(),
        node.cgroup().into(),
        "--bpffs".into(),
        node.bpffs().into(),
        "--run-dir".into(),
        node.run_dir().into(),
        "--uplink".into(),
        node.uplink().into(),
    ]
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

fn with(mut words: Vec<OsString>, more: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    words.extend(more);
    words
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    lines.get(from..).unwrap_or_default().join("\n")
}
