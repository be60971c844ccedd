//! `weft doctor`: what this machine offers, and what is lost without it.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::Serialize;
use weft_dataplane::doctor::{self, Feature};
use weft_l7_proxy::{EnvoyChoice, find};

use super::Failure;
use crate::args::{DoctorArgs, OutputFormat};
use crate::output::{self, Style, Table};

/// One thing that was looked for, as JSON has it.
#[derive(Debug, Serialize)]
struct Finding {
    name: String,
    available: bool,
    required: bool,
    detail: String,
    /// What is lost without it and what to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    without: String,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Nothing that is required is missing.
    ok: bool,
    features: Vec<Finding>,
}

/// Prints the findings.
///
/// # Errors
/// When something is missing without which Weft does not run.
pub(crate) async fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let mut features: Vec<Finding> = doctor::probe().into_iter().map(finding).collect();
    features.push(envoy(&args.envoy).await);
    features.push(agent(&args.run_dir.path));
    let ok = features.iter().all(|f| f.available || !f.required);
    let report = Report { ok, features };
    match args.output.output {
        OutputFormat::Json => output::print_json(&report)?,
        OutputFormat::Table => output::print(&table(&report, output::style()))?,
    }
    if ok { Ok(()) } else { Err(Failure::Quiet) }
}

fn finding(feature: Feature) -> Finding {
    Finding {
        name: feature.name.to_owned(),
        available: feature.available,
        required: feature.required,
        detail: feature.detail,
        without: if feature.available {
            ""
        } else {
            feature.without
        }
        .to_owned(),
    }
}

async fn envoy(choice: &EnvoyChoice) -> Finding {
    let (available, detail) = match find(choice).await {
        Ok(Some(envoy)) => (
            true,
            format!("{} at {}", envoy.version, envoy.path.display()),
        ),
        Ok(None) => (false, "not found".to_owned()),
        Err(error) => (false, error.to_string()),
    };
    Finding {
        name: "Envoy".to_owned(),
        available,
        required: false,
        detail,
        without: if available {
            ""
        } else {
            "no layer 7: services with HTTPRoutes or GRPCRoutes stay as they were without, or do not work"
        }
        .to_owned(),
    }
}

fn agent(run_dir: &Path) -> Finding {
    let available = agent_runs(run_dir);
    let verb = if available { "runs" } else { "does not run" };
    Finding {
        name: "agent".to_owned(),
        available,
        required: false,
        detail: format!("{verb} on {}", run_dir.display()),
        without: if available {
            ""
        } else {
            "what is in the kernel stays as it is"
        }
        .to_owned(),
    }
}

/// Whether somebody answers on the agent's socket. One that was left behind by a crash refuses.
fn agent_runs(run_dir: &Path) -> bool {
    match UnixStream::connect(run_dir.join("agent.sock")) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused
        ),
    }
}

fn table(report: &Report, style: Style) -> String {
    let mut table = Table::new(style, ["FEATURE", "THERE", "FOUND", "WITHOUT IT"]);
    for feature in &report.features {
        let there = match (feature.available, feature.required) {
            (true, _) => "yes",
            (false, true) => "NO",
            (false, false) => "no",
        };
        table.row([
            feature.name.clone(),
            there.to_owned(),
            feature.detail.clone(),
            feature.without.clone(),
        ]);
    }
    let verdict = if report.ok {
        "Weft runs here."
    } else {
        "Weft does not run here: see NO above."
    };
    format!("{}\n{verdict}\n", table.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(available: bool, required: bool) -> Report {
        let feature = Finding {
            name: "bpf_sock_destroy".into(),
            available,
            required,
            detail: "closes over netlink".into(),
            without: "slower".into(),
        };
        Report {
            ok: available || !required,
            features: vec![feature],
        }
    }

    #[test]
    fn says_what_is_lost() {
        let text = table(&report(false, false), Style::Plain);
        assert!(
            text.contains("slower") && text.contains("Weft runs here"),
            "{text}"
        );
        let text = table(&report(false, true), Style::Plain);
        assert!(
            text.contains("NO") && text.contains("does not run"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_missing_envoy_is_no_failure() {
        let found = envoy(&EnvoyChoice::Path("/nonexistent/envoy".into())).await;
        assert!(!found.available && !found.required);
        assert!(found.detail.contains("/nonexistent/envoy"), "{found:?}");
    }
}
