use std::fs;

use super::agent::DefaultPolicy;
use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::from_args(line.split_whitespace().map(OsString::from).collect())
}

fn refused(line: &str) -> String {
    let error = parse(line).expect_err(line);
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

fn agent(line: &str) -> AgentArgs {
    match parse(line).expect(line).verb {
        Verb::Up(up) => up.agent,
        Verb::Agent(agent) => agent.agent,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_option_is_a_variable_of_its_name() {
    let command = Cli::command();
    // What the agent alone starts is nobody's to configure.
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in verbs.chain([&command]) {
        for arg in verb.get_arguments() {
            let Some(long) = arg.get_long().filter(|l| !matches!(*l, "help" | "version")) else {
                continue;
            };
            let expected = format!("WEFT_{}", long.replace('-', "_").to_uppercase());
            let env = arg.get_env().and_then(|e| e.to_str());
            assert_eq!(
                env,
                Some(expected.as_str()),
                "weft {} --{long}",
                verb.get_name()
            );
        }
    }
}

#[test]
fn every_option_and_verb_has_help() {
    let command = Cli::command();
    for verb in command.get_subcommands() {
        assert!(verb.get_about().is_some(), "{}", verb.get_name());
        for arg in verb.get_arguments() {
            assert!(
                arg.get_help().is_some(),
                "weft {} {}",
                verb.get_name(),
                arg.get_id()
            );
        }
    }
}

#[test]
fn up_has_the_documented_defaults() {
    let agent = agent("weft up --manifests m --node n1");
    assert_eq!(agent.node, "n1");
    assert_eq!(agent.bpffs, PathBuf::from("/sys/fs/bpf/weft"));
    assert_eq!(agent.run_dir.path, PathBuf::from("/run/weft"));
    let metrics = agent.metrics().expect("an address");
    assert_eq!(metrics.address.to_string(), "127.0.0.1:15020");
    assert!(!metrics.explicit);
    assert_eq!(agent.cgroup, None);
    assert_eq!(agent.default_policy, DefaultPolicy::Allow);
    assert_eq!(agent.acceleration, super::agent::Acceleration::Off);
    assert!(agent.map_size.is_empty() && agent.uplink.is_empty());
}

#[test]
fn repeatable_options_take_several_values() {
    let agent = agent(
        "weft up --manifests m --node n1 --uplink eth0 --uplink eth1 --map-size services=10 --map-size slots=20",
    );
    assert_eq!(agent.uplink, ["eth0", "eth1"]);
    let sizes: Vec<String> = agent.map_size.iter().map(ToString::to_string).collect();
    assert_eq!(sizes, ["services=10", "slots=20"]);
}

#[test]
fn metrics_can_be_off_or_elsewhere() {
    assert!(
        agent("weft up --manifests m --node n --metrics none")
            .metrics()
            .is_none()
    );
    let metrics = agent("weft up --manifests m --node n --metrics [::1]:9").metrics();
    assert!(metrics.is_some_and(|m| m.explicit && m.address.port() == 9));
}

#[test]
fn bad_values_name_the_option() {
    for (line, option) in [
        (
            "weft up --manifests m --node n --metrics 15020",
            "--metrics",
        ),
        (
            "weft up --manifests m --node n --map-size services",
            "--map-size",
        ),
        (
            "weft up --manifests m --node n --map-size services=0",
            "--map-size",
        ),
        (
            "weft up --manifests m --node n --drain-timeout soon",
            "--drain-timeout",
        ),
        (
            "weft up --manifests m --node n --acceleration always",
            "--acceleration",
        ),
        ("weft agent --control 10.0.0.1 --node n", "--control"),
        (
            "weft agent --control 10.0.0.300:15010 --node n",
            "--control",
        ),
        ("weft agent --control :15010 --node n", "--control"),
        ("weft control --manifests m --listen 15010", "--listen"),
        ("weft status --wait never", "--wait"),
        ("weft up --manifests m", "--node"),
        ("weft up --node n", "--manifests"),
        ("weft agent --node n", "--control"),
        ("weft control --listen 127.0.0.1:1", "--manifests"),
        ("weft contrack", "contrack"),
        ("weft flows --verdict maybe", "--verdict"),
        ("weft check shop/a shop/b:x", "TO"),
        ("weft check shop/a", "TO"),
        ("weft", "weft"),
    ] {
        let error = refused(line);
        assert!(error.contains(option), "{line}: {error}");
    }
}

#[test]
fn objects_come_from_one_place() {
    let both = refused("weft control --manifests m --kubeconfig k --listen 127.0.0.1:1");
    assert!(both.contains("--kubeconfig"), "{both}");
    let filtered = refused("weft control --manifests m --namespaces n --listen 127.0.0.1:1");
    assert!(filtered.contains("--namespaces"), "{filtered}");
}

#[test]
fn features_that_may_be_absent_are_no_error() {
    agent("weft up --manifests m --node n --acceleration auto --envoy auto --default-policy allow");
    agent(
        "weft up --manifests m --node n --acceleration off --envoy none --default-policy deny --trust-domain mesh.example",
    );
}

#[test]
fn plain_text_stays_on_this_machine() {
    for line in [
        "weft control --manifests m",
        "weft control --manifests m --listen 10.0.0.1:15010",
        "weft control --manifests m --listen [::]:15010",
        "weft up --manifests m --node n --listen 0.0.0.0:15010",
        "weft agent --node n --control 10.0.0.1:15010",
        "weft agent --node n --control [fd00::1]:15010",
        "weft agent --node n --control control.example:15010",
        "weft agent --node n --control localhost.example:15010",
    ] {
        assert!(refused(line).contains("--insecure"), "{line}");
        parse(&format!("{line} --insecure")).expect(line);
    }
    for line in [
        "weft control --manifests m --listen 127.0.0.1:15010",
        "weft control --manifests m --listen [::1]:15010",
        "weft up --manifests m --node n",
        "weft up --manifests m --node n --listen 127.0.0.2:15010",
        "weft agent --node n --control localhost:15010",
        "weft agent --node n --control 127.0.0.1:15010",
        "weft agent --node n --control [::ffff:127.0.0.1]:15010",
    ] {
        parse(line).expect(line);
    }
}

#[test]
fn tokens_take_the_place_of_insecure() {
    for line in [
        "weft control --manifests m",
        "weft control --manifests m --listen 127.0.0.1:15010 --ca-bundle b",
        "weft up --manifests m --node n --listen 0.0.0.0:15010",
        "weft agent --node n --control control.example:15010 --ca-bundle b",
        "weft agent --node n --control 127.0.0.1:15010 --ca-bundle b",
    ] {
        parse(&format!("{line} --join-token-file t")).expect(line);
        let error = refused(&format!("{line} --join-token-file t --insecure"));
        assert!(error.contains("leave one out"), "{error}");
    }
    for (line, missing) in [
        ("--control 10.0.0.1:15010", "--join-token-file"),
        (
            "--control 10.0.0.1:15010 --join-token-file t",
            "--ca-bundle",
        ),
        (
            "--control 10.0.0.1:15010 --ca-bundle b",
            "--join-token-file",
        ),
        (
            "--control 127.0.0.1:15010 --join-token-file t",
            "--ca-bundle",
        ),
    ] {
        let error = refused(&format!("weft agent --node n {line}"));
        assert!(
            error.contains(&format!("{missing} FILE")),
            "{line}: {error}"
        );
    }
}

#[test]
fn lives_of_certificates_are_bounded() {
    for life in ["1s", "8d", "0s", "soon"] {
        let error = refused(&format!(
            "weft control --manifests m --insecure --svid-life {life}"
        ));
        assert!(error.contains("--svid-life"), "{error}");
    }
    let error = refused("weft control --manifests m --insecure --trust-domain Mesh");
    assert!(error.contains("trust domain"), "{error}");
}

fn with_file(text: &str, line: &str) -> Result<Cli, clap::Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weft.yaml");
    fs::write(&path, text).expect("a file");
    parse(&format!("{line} --config {}", path.display()))
}

#[test]
fn the_file_gives_what_the_command_line_does_not() {
    let file = "node: n1\nmanifests: /etc/m\nrun-dir: /run/a\nmap-size: {slots: 7}\nlog: debug\ninsecure: true\n";
    let cli = with_file(file, "weft up --run-dir /run/b").expect("options");
    assert_eq!(cli.log.log, "debug");
    let Verb::Up(up) = cli.verb else { panic!("up") };
    assert_eq!(up.agent.node, "n1");
    assert_eq!(up.source.manifests, Some("/etc/m".into()));
    assert_eq!(up.agent.run_dir.path, PathBuf::from("/run/b"));
    assert_eq!(
        up.agent
            .map_size
            .first()
            .map(ToString::to_string)
            .as_deref(),
        Some("slots=7")
    );
    assert!(up.security.insecure);
}

#[test]
fn one_file_serves_all_verbs() {
    let cli = with_file("node: n1\nrun-dir: /run/a\n", "weft status").expect("options");
    let Verb::Status(status) = cli.verb else {
        panic!("status")
    };
    assert_eq!(status.run_dir.path, PathBuf::from("/run/a"));
}

#[test]
fn an_unknown_key_is_named() {
    let error = with_file("rundir: /run/a\n", "weft status").expect_err("unknown key");
    assert_eq!(error.exit_code(), 2);
    let text = error.to_string();
    assert!(
        text.contains("\"rundir\"") && text.contains("run-dir"),
        "{text}"
    );
}

#[test]
fn a_bad_value_in_the_file_names_the_option() {
    let error = with_file("metrics: nowhere\n", "weft up --manifests m --node n").expect_err("bad");
    assert!(error.to_string().contains("--metrics"), "{error}");
}

#[test]
fn traces_have_their_options() {
    let args = agent(
        "weft up --manifests m --node n --otlp http://c:4318 --otlp-header a=b --otlp-sampling 0.1 --otlp-workload-sampling a/b=1 --otlp-service-sampling a/c=0.5",
    );
    let config = args.otlp.config().expect("an address");
    assert_eq!(config.target.to_string(), "http://c:4318/v1/traces");
    assert_eq!((config.headers.len(), config.bytes_per_second), (1, 0));
    for (wrong, option) in [
        ("--otlp collector:4317", "--otlp"),
        ("--otlp http://c --otlp-sampling 2", "--otlp-sampling"),
        (
            "--otlp http://c --otlp-workload-sampling 2",
            "--otlp-workload-sampling",
        ),
        (
            "--otlp http://c --otlp-service-sampling c=1",
            "--otlp-service-sampling",
        ),
        ("--otlp http://c --otlp-header token", "--otlp-header"),
    ] {
        let error = refused(&format!("weft up --manifests m --node n {wrong}"));
        assert!(error.contains(option), "{wrong}: {error}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = refused("weft status --config /nonexistent/weft.yaml");
    assert!(error.contains("/nonexistent/weft.yaml"), "{error}");
}

#[test]
fn objects_come_from_one_place_whoever_names_it() {
    let error = with_file("kubeconfig: k\n", "weft up --manifests m --node n");
    let error = error.expect_err("refused").to_string();
    assert!(error.contains("--kubeconfig"), "{error}");
}
