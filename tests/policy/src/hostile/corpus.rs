//! The corpus: `corpus/*.txt`. Its form is in the crate's README.

use std::path::Path;
use std::{fs, io};

use crate::packet::Wire;

/// What has to become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Refused by both programs, whatever policy says.
    Drop,
    /// Refused where it leaves a pod, because the source is not that pod; elsewhere as policy says.
    Spoofed,
    /// As policy says.
    Policy,
    /// Let through, whatever policy says.
    Pass,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// File and name: `tcp/flags-null`.
    pub name: String,
    /// What has to become of it.
    pub expectation: Expectation,
    /// Its bytes.
    pub frame: Wire,
}

/// A corpus that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file or the folder.
    #[error("{0}: {1}")]
    File(String, io::Error),
    /// A line of a file.
    #[error("{0}:{1}: {2}")]
    Line(String, usize, String),
}

/// All entries, by file name and place.
///
/// # Errors
/// When a file cannot be read, or is no corpus.
pub fn corpus() -> Result<Vec<Entry>, ReadError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let failed = |error| ReadError::File(folder.display().to_string(), error);
    let files: io::Result<Vec<_>> =
        fs::read_dir(&folder).and_then(|dir| dir.map(|file| Ok(file?.path())).collect());
    let mut files = files.map_err(failed)?;
    files.sort();
    let mut entries = Vec::new();
    for path in files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(&path)
            .map_err(|error| ReadError::File(path.display().to_string(), error))?;
        entries.extend(parse(&name, &text)?);
    }
    Ok(entries)
}

fn parse(file: &str, text: &str) -> Result<Vec<Entry>, ReadError> {
    let mut entries: Vec<Entry> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let error = |what: &str| ReadError::Line(file.to_owned(), number, what.to_owned());
        let said = line.split('#').next().unwrap_or_default();
        if said.trim().is_empty() {
            continue;
        }
        if said.starts_with(' ') {
            let entry = entries
                .last_mut()
                .ok_or_else(|| error("bytes of nothing"))?;
            for byte in said.split_whitespace() {
                let byte = u8::from_str_radix(byte, 16).map_err(|_| error("no byte"))?;
                entry.frame.push(byte);
            }
            continue;
        }
        let (name, expectation) = said
            .split_once(':')
            .ok_or_else(|| error("no `name: expectation`"))?;
        let expectation = match expectation.trim() {
            "drop" => Expectation::Drop,
            "spoofed" => Expectation::Spoofed,
            "policy" => Expectation::Policy,
            "pass" => Expectation::Pass,
            _ => return Err(error("expect drop, spoofed, policy or pass")),
        };
        entries.push(Entry {
            name: format!("{file}/{name}"),
            expectation,
            frame: Vec::new(),
        });
    }
    Ok(entries)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::packet::{Meaning, read};

    /// What the corpus expects and what a receiver makes of a frame belong together.
    #[test]
    fn is_read_as_it_says() {
        let all = corpus().unwrap();
        assert!(all.len() > 100);
        for entry in all {
            let meaning = read(&entry.frame);
            match entry.expectation {
                Expectation::Pass => assert_eq!(meaning, Ok(Meaning::Link), "{}", entry.name),
                Expectation::Policy | Expectation::Spoofed => {
                    assert!(
                        matches!(meaning, Ok(Meaning::Of(_))),
                        "{}: {meaning:?}",
                        entry.name
                    );
                }
                // Some are well-formed, and dropped for what they are.
                Expectation::Drop => assert_ne!(meaning, Ok(Meaning::Link), "{}", entry.name),
            }
        }
    }
}
