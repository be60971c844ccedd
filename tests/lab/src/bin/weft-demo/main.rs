//! Shows Weft at work on two nodes made of network namespaces. Each act makes a claim, shows it and checks it: the demo
//! fails when what it says is not so.
#![forbid(unsafe_code)]

mod acts;
mod stage;
mod talk;
mod traces;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use stage::Stage;

#[derive(Parser)]
#[command(
    version,
    about = "Weft on two nodes made of network namespaces (needs root)"
)]
struct Cli {
    /// Folder of manifests that describes nodes, pods and services
    #[arg(long, value_name = "DIR", default_value = "deploy/demo")]
    manifests: PathBuf,
    /// Leave it all running at the end, until Enter is pressed
    #[arg(long)]
    stay: bool,
}

fn main() -> ExitCode {
    match show(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            talk::failed(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn show(cli: &Cli) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut stage = Stage::raise(&cli.manifests)?;
    for (title, act) in acts::ALL {
        talk::title(title);
        act(&mut stage)?;
    }
    if cli.stay {
        stage.describe();
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
    }
    stage.strike()?;
    talk::title(&format!(
        "Done in {:.1} s; nothing is left on this machine.",
        start.elapsed().as_secs_f64()
    ));
    Ok(())
}
