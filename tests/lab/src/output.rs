//! What a process leaves behind.

use std::process::ExitStatus;

use crate::{LabError, Result};

/// What a process printed, and how it ended.
#[derive(Debug)]
pub struct Output {
    /// The command line.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Itself if the exit status is 0.
    ///
    /// # Errors
    /// [`LabError::Command`] otherwise.
    pub fn success(self) -> Result<Self> {
        if self.status.success() {
            return Ok(self);
        }
        Err(LabError::Command {
            command: self.command,
            status: self.status.to_string(),
            stderr: format!("{}\n{}", self.stderr.trim(), self.stdout.trim()),
        })
    }

    /// Standard output as one JSON value.
    ///
    /// # Errors
    /// [`LabError::Parse`] with what was printed.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.stdout).map_err(|source| self.parse_error(source))
    }

    /// Standard output as one JSON value a line.
    ///
    /// # Errors
    /// [`LabError::Parse`] with what was printed.
    pub fn json_lines<T: serde::de::DeserializeOwned>(&self) -> Result<Vec<T>> {
        let lines = self.stdout.lines().filter(|line| !line.trim().is_empty());
        lines
            .map(|line| serde_json::from_str(line).map_err(|source| self.parse_error(source)))
            .collect()
    }

    fn parse_error(&self, source: serde_json::Error) -> LabError {
        LabError::Parse {
            command: self.command.clone(),
            source,
            output: format!("{}{}", self.stdout, self.stderr),
        }
    }
}
