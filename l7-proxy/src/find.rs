//! Finds Envoy and makes sure that it runs.

use std::env;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use crate::{EnvoyChoice, INSTALLED, ParseVersionError, Version};

/// `envoy --version` needs milliseconds; a loaded machine may page 100 MB in first.
const VERSION_WITHIN: Duration = Duration::from_secs(10);
/// What `--version` prints is one line.
const MOST_OUTPUT: u64 = 4096;

/// An Envoy that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envoy {
    /// The binary.
    pub path: PathBuf,
    /// What it calls itself.
    pub version: Version,
}

/// Why there is no usable Envoy.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The given path leads nowhere.
    #[error(
        "no Envoy at {0}: install one there, give another path with --envoy, or --envoy none to do without layer 7"
    )]
    Missing(PathBuf),
    /// There is something, but not a program.
    #[error(
        "{0} is not an executable file: make it one (chmod +x), or give another path with --envoy"
    )]
    NotExecutable(PathBuf),
    /// The kernel would not start it.
    #[error("{path} cannot be started ({source}): is it built for this machine?")]
    Start {
        /// The binary.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It does not end.
    #[error("{path} --version did not end within {} s: is it Envoy?", within.as_secs())]
    Timeout {
        /// The binary.
        path: PathBuf,
        /// How long it had.
        within: Duration,
    },
    /// It ended with an error.
    #[error("{path} --version failed ({status}): {output}")]
    Failed {
        /// The binary.
        path: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// The beginning of what it printed.
        output: String,
    },
    /// It is something else.
    #[error("{path} is not Envoy: {source}")]
    Version {
        /// The binary.
        path: PathBuf,
        /// What it printed instead.
        source: ParseVersionError,
    },
}

/// The Envoy that `choice` leads to, tried out; `None` when there is none and none was asked for by name.
///
/// # Errors
/// When the one that was found does not run, or the one that was named is not there.
pub async fn find(choice: &EnvoyChoice) -> Result<Option<Envoy>, FindError> {
    let path = match choice {
        EnvoyChoice::None => return Ok(None),
        EnvoyChoice::Path(path) => path.clone(),
        EnvoyChoice::Auto => match candidates().find(|path| is_executable(path)) {
            Some(path) => path,
            None => return Ok(None),
        },
    };
    try_out(path, VERSION_WITHIN).await.map(Some)
}

fn candidates() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = env::split_paths(&path)
        // An empty or relative entry would run whatever lies in the current folder, as root.
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("envoy"))
        .collect();
    on_path.into_iter().chain([PathBuf::from(INSTALLED)])
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

async fn try_out(path: PathBuf, within: Duration) -> Result<Envoy, FindError> {
    if !path.exists() {
        return Err(FindError::Missing(path));
    }
    if !is_executable(&path) {
        return Err(FindError::NotExecutable(path));
    }
    let (status, output) = match tokio::time::timeout(within, run_version(&path)).await {
        Ok(Ok(ended)) => ended,
        Ok(Err(source)) => return Err(FindError::Start { path, source }),
        Err(_) => return Err(FindError::Timeout { path, within }),
    };
    if !status.success() {
        return Err(FindError::Failed {
            path,
            status,
            output: output.trim().to_owned(),
        });
    }
    match Version::from_output(&output) {
        Ok(version) => Ok(Envoy { path, version }),
        Err(source) => Err(FindError::Version { path, source }),
    }
}

/// A file that is being written cannot be run: an installation may be about to end.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
const BUSY_TRIES: u32 = 10;

async fn spawn_version(path: &Path) -> io::Result<Child> {
    let mut tries = 0;
    loop {
        let spawned = Command::new(path)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A timeout drops it.
            .kill_on_drop(true)
            .spawn();
        tries += 1;
        match spawned {
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            other => return other,
        }
    }
}

async fn run_version(path: &Path) -> io::Result<(ExitStatus, String)> {
    let mut child = spawn_version(path).await?;
    let (out, err) = tokio::join!(
        beginning(child.stdout.take()),
        beginning(child.stderr.take())
    );
    let status = child.wait().await?;
    let text = [out?, err?].concat();
    Ok((status, String::from_utf8_lossy(&text).into_owned()))
}

async fn beginning(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(MOST_OUTPUT).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::sync::Mutex;

    use super::*;

    /// A script that another thread forks while it is still open for writing cannot be started (ETXTBSY).
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

    async fn try_script(script: &str, within: Duration) -> Result<Envoy, FindError> {
        let _one = ONE_AT_A_TIME.lock().await;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("envoy");
        fs::write(&path, script).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
        try_out(path, within).await
    }

    #[tokio::test]
    async fn takes_one_that_names_its_version() {
        let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'envoy  version: ab/1.40.0/Clean/RELEASE/BoringSSL'\n";
        let envoy = try_script(script, VERSION_WITHIN).await.expect("Envoy");
        assert_eq!(envoy.version.to_string(), "1.40.0");
        assert!(envoy.path.ends_with("envoy"));
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_given_up() {
        let within = Duration::from_millis(100);
        let error = try_script("#!/bin/sh\nexec sleep 60\n", within).await;
        assert!(matches!(error, Err(FindError::Timeout { .. })), "{error:?}");
    }

    #[tokio::test]
    async fn one_that_prints_without_end_is_given_up() {
        let within = Duration::from_millis(500);
        let error = try_script("#!/bin/sh\nexec yes envoy\n", within).await;
        // Its pipe is closed after the first bytes: it dies of that.
        assert!(
            matches!(
                error,
                Err(FindError::Failed { .. } | FindError::Timeout { .. })
            ),
            "{error:?}"
        );
    }

    #[tokio::test]
    async fn a_failing_program_is_quoted() {
        let error = try_script(
            "#!/bin/sh\necho 'libc too old' >&2\nexit 3\n",
            VERSION_WITHIN,
        )
        .await;
        let text = error.expect_err("a failure").to_string();
        assert!(
            text.contains("libc too old") && text.contains('3'),
            "{text}"
        );
    }

    #[tokio::test]
    async fn another_program_is_not_envoy() {
        let error = try_script("#!/bin/sh\necho nginx/1.27\n", VERSION_WITHIN).await;
        let text = error.expect_err("not Envoy").to_string();
        assert!(text.contains("is not Envoy"), "{text}");
    }

    #[tokio::test]
    async fn a_file_that_cannot_run_says_so() {
        let error = try_script("\u{7f}ELF nonsense", VERSION_WITHIN).await;
        assert!(
            matches!(
                error,
                Err(FindError::Start { .. } | FindError::Failed { .. })
            ),
            "{error:?}"
        );
    }

    #[tokio::test]
    async fn names_what_is_missing_or_no_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = find(&EnvoyChoice::Path(folder.path().join("envoy"))).await;
        assert!(matches!(missing, Err(FindError::Missing(_))), "{missing:?}");
        let plain = folder.path().join("plain");
        fs::write(&plain, "").expect("a file");
        let plain = find(&EnvoyChoice::Path(plain)).await;
        assert!(
            matches!(plain, Err(FindError::NotExecutable(_))),
            "{plain:?}"
        );
    }

    #[tokio::test]
    async fn none_is_none() {
        assert!(matches!(find(&EnvoyChoice::None).await, Ok(None)));
    }
}
