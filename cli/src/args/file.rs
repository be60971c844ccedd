//! The `--config` file: its values become defaults of the options, which puts them below variables and command line.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use serde_json::Value;

/// A config file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("config file {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("config file {path} is not YAML of `option: value` lines: {reason}")]
    Parse { path: PathBuf, reason: String },
    #[error("config file {path}: unknown key {key:?}: known are {known}")]
    UnknownKey {
        path: PathBuf,
        key: String,
        known: String,
    },
    #[error("config file {path}: {key}: give text, a number, true or false, or a list of them")]
    Value { path: PathBuf, key: String },
}

/// What a file says: option name to values.
pub(super) type Options = BTreeMap<String, Vec<String>>;

/// The file that the arguments name, else the variable's.
pub(super) fn path(args: &[OsString], variable: Option<OsString>) -> Option<PathBuf> {
    let options = || args.iter().skip(1).take_while(|arg| *arg != "--");
    let separate = options().skip_while(|arg| *arg != "--config").nth(1);
    let joined = || options().find_map(|arg| arg.to_str()?.strip_prefix("--config="));
    separate
        .map(OsString::as_os_str)
        .or_else(|| joined().map(OsStr::new))
        .map(PathBuf::from)
        .or_else(|| variable.filter(|v| !v.is_empty()).map(PathBuf::from))
}

/// Reads `path`.
pub(super) fn read(path: &Path) -> Result<Options, FileError> {
    let text = fs::read_to_string(path).map_err(|source| FileError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(&text, path)
}

fn parse(text: &str, path: &Path) -> Result<Options, FileError> {
    if text
        .lines()
        .all(|line| line.trim().is_empty() || line.trim().starts_with('#'))
    {
        return Ok(Options::new());
    }
    let values: BTreeMap<String, Value> =
        serde_saphyr::from_str(text).map_err(|e| FileError::Parse {
            path: path.to_owned(),
            reason: e.to_string(),
        })?;
    values
        .into_iter()
        .map(|(key, value)| match strings(&value) {
            Some(list) => Ok((key, list)),
            None => Err(FileError::Value {
                path: path.to_owned(),
                key,
            }),
        })
        .collect()
}

fn strings(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(list) => list.iter().map(scalar).collect(),
        // `map-size: {services: 1000}` reads better than a list of "services=1000".
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| Some(format!("{key}={}", scalar(value)?)))
            .collect(),
        one => Some(vec![scalar(one)?]),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// `command` with the file's values as defaults. A file may serve all verbs: a key that only another verb has is passed
/// over, one that none has is an error.
pub(super) fn apply(
    command: Command,
    options: &Options,
    path: &Path,
) -> Result<Command, FileError> {
    let known = names(&command);
    if let Some(key) = options.keys().find(|key| !known.contains(*key)) {
        return Err(FileError::UnknownKey {
            path: path.to_owned(),
            key: key.clone(),
            known: known.into_iter().collect::<Vec<_>>().join(", "),
        });
    }
    Ok(with_defaults(command, options).mut_subcommands(|verb| with_defaults(verb, options)))
}

fn with_defaults(command: Command, options: &Options) -> Command {
    command.mut_args(|arg| {
        let values = name(&arg).and_then(|name| options.get(name));
        match values {
            Some(values) => arg.required(false).default_values(values.clone()),
            None => arg,
        }
    })
}

fn names(command: &Command) -> BTreeSet<String> {
    let of = |c: &Command| -> Vec<String> {
        c.get_arguments()
            .filter_map(name)
            .map(str::to_owned)
            .collect()
    };
    let verbs = command.get_subcommands().flat_map(of);
    of(command).into_iter().chain(verbs).collect()
}

fn name(arg: &Arg) -> Option<&str> {
    arg.get_long()
        .filter(|long| !matches!(*long, "help" | "version" | "config"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_command_line_names_the_file_before_the_variable() {
        let variable = || Some(OsString::from("env.yaml"));
        for line in ["weft --config a.yaml status", "weft status --config=a.yaml"] {
            assert_eq!(
                path(&args(line), variable()),
                Some("a.yaml".into()),
                "{line}"
            );
        }
        assert_eq!(
            path(&args("weft status"), variable()),
            Some("env.yaml".into())
        );
        assert_eq!(path(&args("weft status -- --config a.yaml"), None), None);
    }

    #[test]
    fn scalars_lists_and_maps_become_strings() {
        let text = "wait: 5\ninsecure: true\nuplink: [eth0, eth1]\nmap-size: {slots: 9}\n";
        let options = parse(text, Path::new("weft.yaml")).expect("options");
        assert_eq!(options["wait"], ["5"]);
        assert_eq!(options["insecure"], ["true"]);
        assert_eq!(options["uplink"], ["eth0", "eth1"]);
        assert_eq!(options["map-size"], ["slots=9"]);
    }

    #[test]
    fn an_empty_file_says_nothing() {
        for text in ["", "\n", "# nothing\n"] {
            assert_eq!(
                parse(text, Path::new("x")).expect("options"),
                Options::new()
            );
        }
    }

    #[test]
    fn what_is_no_option_list_is_refused() {
        for text in [
            "- a\n- b\n",
            "just text\n",
            "run-dir: {a: {b: c}}\n",
            "node:\n",
            "a: 1\na: 2\n",
            "a: [\n",
        ] {
            let error = parse(text, Path::new("weft.yaml"))
                .expect_err(text)
                .to_string();
            assert!(error.starts_with("config file weft.yaml"), "{error}");
        }
    }
}
