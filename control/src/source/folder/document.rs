//! File content to documents. A document that cannot be read does not hide the others.

use serde_json::Value;

use super::strict_json::StrictValue;

/// One document of a file.
#[derive(Debug)]
pub(super) struct Document {
    /// Line where it begins, or where its error is; from 1.
    pub(super) line: usize,
    /// What it says, or why it cannot be read.
    pub(super) value: Result<Value, String>,
}

impl Document {
    const fn bad(line: usize, message: String) -> Self {
        Self {
            line,
            value: Err(message),
        }
    }
}

/// Objects this deep are not Kubernetes'; the bound keeps recursion on the stack.
const MAX_DEPTH: usize = 100;

/// The documents in `bytes`, which are JSON or YAML.
pub(super) fn parse(bytes: &[u8], json: bool) -> Vec<Document> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            return vec![Document::bad(
                lines(before) + 1,
                "is not UTF-8 text: save the file as UTF-8, or move it out of the folder"
                    .to_owned(),
            )];
        }
    };
    if json {
        parse_json(text)
    } else {
        chunks(text).filter_map(parse_yaml).collect()
    }
}

fn lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| **b == b'\n').count()
}

/// JSON documents one after the other. What follows a broken one cannot be found again.
fn parse_json(text: &str) -> Vec<Document> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<StrictValue>();
    let mut documents = Vec::new();
    let mut position = Position::default();
    loop {
        position.skip_blank(text);
        match stream.next() {
            None => return documents,
            Some(Ok(StrictValue(value))) => documents.push(Document {
                line: position.line,
                value: Ok(value),
            }),
            Some(Err(error)) => {
                // serde_json counts lines from the start of the text.
                let message = format!("cannot be read as JSON: {error}");
                documents.push(Document::bad(error.line().max(1), message));
                return documents;
            }
        }
        position.advance(text, stream.byte_offset());
    }
}

/// A place in a text. It counts lines as it goes, so that a file of many small documents is looked through once.
struct Position {
    offset: usize,
    line: usize,
}

impl Default for Position {
    fn default() -> Self {
        Self { offset: 0, line: 1 }
    }
}

impl Position {
    fn advance(&mut self, text: &str, to: usize) {
        let passed = text.as_bytes().get(self.offset..to).unwrap_or_default();
        self.line += lines(passed);
        self.offset = to;
    }

    fn skip_blank(&mut self, text: &str) {
        let rest = text.get(self.offset..).unwrap_or_default();
        let blank = rest.len() - rest.trim_start().len();
        self.advance(text, self.offset + blank);
    }
}

/// Part of a YAML stream that holds one document.
struct Chunk<'a> {
    /// Lines of the file before it.
    before: usize,
    text: &'a str,
}

/// Cuts a YAML stream at its document markers. They stand at the beginning of a line, where no content may look like them
/// (YAML 1.2, c-forbidden), so that the cut is safe even inside a document that cannot be parsed.
fn chunks(text: &str) -> impl Iterator<Item = Chunk<'_>> {
    let mut cuts = vec![(0, 0)];
    let mut offset = 0;
    for (line, content) in text.split_inclusive('\n').enumerate() {
        let after = offset + content.len();
        match content.get(..3).map(|marker| (marker, content.get(3..))) {
            Some(("---", Some(rest)))
                if rest.is_empty() || rest.starts_with(char::is_whitespace) =>
            {
                cuts.push((offset, line));
            }
            Some(("...", Some(rest))) if rest.trim().is_empty() => cuts.push((after, line + 1)),
            _ => {}
        }
        offset = after;
    }
    let ends: Vec<usize> = cuts
        .iter()
        .skip(1)
        .map(|(offset, _)| *offset)
        .chain([text.len()])
        .collect();
    cuts.into_iter()
        .zip(ends)
        .filter_map(|((start, before), end)| {
            Some(Chunk {
                before,
                text: text.get(start..end)?,
            })
        })
}

fn parse_yaml(chunk: Chunk<'_>) -> Option<Document> {
    let first = first_line(chunk.text)?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_events: 50_000_000,
            max_nodes: 50_000_000,
            max_total_scalar_bytes: 512 << 20,
        },
        with_snippet: false,
    };
    Some(
        match serde_saphyr::from_str_with_options::<Value>(chunk.text, options) {
            Ok(value) => Document {
                line: chunk.before + first,
                value: Ok(value),
            },
            Err(error) => {
                let line = error
                    .location()
                    .and_then(|l| usize::try_from(l.line()).ok())
                    .filter(|line| *line > 0);
                Document::bad(
                    chunk.before + line.unwrap_or(first),
                    describe(&error, chunk.before),
                )
            }
        },
    )
}

/// The error on one line, with the file's line numbers.
fn describe(error: &serde_saphyr::Error, lines_before: usize) -> String {
    const MAX: usize = 400;
    let options = serde_saphyr::render_options! {
        snippets: serde_saphyr::SnippetMode::Off,
        line_offset: u64::try_from(lines_before).unwrap_or_default(),
    };
    let mut text = error
        .render_with_options(options)
        // Advice for callers of the parser, not for authors of manifests.
        .replace(", set DuplicateKeyPolicy in Options if acceptable", "")
        .replace('\n', " ");
    if let Some((end, _)) = text.char_indices().nth(MAX) {
        text.truncate(end);
        text.push('…');
    }
    format!("cannot be read as YAML: {text}")
}

/// The first line with content, from 1; `None` when there is nothing but comments, directives and markers.
fn first_line(chunk: &str) -> Option<usize> {
    chunk
        .lines()
        .position(|line| {
            let line = line.strip_prefix("---").unwrap_or(line).trim_start();
            !line.is_empty() && !line.starts_with('#') && !line.starts_with('%')
        })
        .map(|i| i + 1)
}
