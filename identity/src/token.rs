//! Bearer tokens by which an agent proves itself.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use subtle::ConstantTimeEq;
use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// Shorter ones can be guessed. `openssl rand -hex 32` makes 64 characters.
pub const MIN_TOKEN: usize = 16;
/// Longer ones are not tokens.
const MAX_TOKEN: u64 = 16 << 10;

/// A token file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The system refuses.
    #[error("token file {path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// Everybody can read it.
    #[error(
        "token file {path} can be read or written by others than its owner and group (mode {mode:03o}): chmod 600 {path}"
    )]
    Open {
        /// Which.
        path: PathBuf,
        /// As it is.
        mode: u32,
    },
    /// Nothing in it.
    #[error("token file {0} is empty: `openssl rand -hex 32` makes a token")]
    Empty(PathBuf),
    /// Can be guessed.
    #[error(
        "token file {0}: a token has at least {MIN_TOKEN} characters: `openssl rand -hex 32` makes one"
    )]
    Short(PathBuf),
    /// Not a token.
    #[error(
        "token file {0}: one line of at most 16,384 letters, digits and punctuation is expected"
    )]
    Form(PathBuf),
}

/// A file with a token, read anew whenever the token is needed: one that is replaced takes effect at once. A projected service
/// account token is such a file, too.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// Of this path; whether it is usable is seen when it is read.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// The token as it is now.
    ///
    /// # Errors
    /// When there is none that can be used.
    pub fn read(&self) -> Result<String, TokenError> {
        let path = || self.path.clone();
        let io = |source| TokenError::Io {
            path: path(),
            source,
        };
        let file = File::open(&self.path).map_err(io)?;
        let mode = file.metadata().map_err(io)?.permissions().mode() & 0o777;
        // A group may read it: so do projected tokens of processes that are not root.
        if mode & 0o027 != 0 {
            return Err(TokenError::Open { path: path(), mode });
        }
        let mut text = String::new();
        let read = file.take(MAX_TOKEN + 1).read_to_string(&mut text);
        read.map_err(io)?;
        let token = text.trim();
        if token.is_empty() {
            return Err(TokenError::Empty(path()));
        }
        if text.len() as u64 > MAX_TOKEN || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(TokenError::Form(path()));
        }
        if token.len() < MIN_TOKEN {
            return Err(TokenError::Short(path()));
        }
        Ok(token.to_owned())
    }

    /// Whether `token` is the file's, in a time that does not tell how much of it is right.
    ///
    /// # Errors
    /// When the file has no token that can be used.
    pub fn is(&self, token: &str) -> Result<bool, TokenError> {
        let own = self.read()?;
        Ok(own.as_bytes().ct_eq(token.as_bytes()).into())
    }
}

/// Puts the token, if there is one, on each request.
#[derive(Clone, Debug)]
pub struct Bearer(Option<Arc<TokenFile>>);

impl Bearer {
    /// Requests without a token.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Requests with this file's token.
    #[must_use]
    pub fn of(file: TokenFile) -> Self {
        Self(Some(Arc::new(file)))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let Some(file) = &self.0 else {
            return Ok(request);
        };
        let token = file.read();
        let token = token.map_err(|e| Status::unauthenticated(e.to_string()))?;
        let mut value = MetadataValue::try_from(format!("Bearer {token}"))
            .map_err(|e| Status::unauthenticated(e.to_string()))?;
        value.set_sensitive(true);
        request.metadata_mut().insert("authorization", value);
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, TokenFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (folder, TokenFile::new(&path))
    }

    #[test]
    fn a_token_is_a_line_and_is_read_anew() {
        let (folder, token) = file(&format!("{TOKEN}\n"), 0o600);
        assert_eq!(token.read().unwrap(), TOKEN);
        assert!(token.is(TOKEN).unwrap());
        for wrong in ["", "0", &TOKEN[1..], &format!("{TOKEN}0")] {
            assert!(!token.is(wrong).unwrap(), "{wrong}");
        }
        fs::write(folder.path().join("token"), "another-one-of-good-length").unwrap();
        assert!(!token.is(TOKEN).unwrap());
    }

    #[test]
    fn what_cannot_protect_is_refused() {
        for (text, mode, says) in [
            (TOKEN, 0o644, "chmod 600"),
            (TOKEN, 0o602, "chmod 600"),
            (TOKEN, 0o660, "chmod 600"),
            ("", 0o600, "is empty"),
            (" \n\n", 0o600, "is empty"),
            ("short", 0o600, "at least"),
            ("two lines of what may be\ntokens or not", 0o600, "one line"),
            ("0123456789abcdef0123\u{fc}", 0o600, "one line"),
            (&"x".repeat(17_000), 0o600, "one line"),
        ] {
            let (_folder, token) = file(text, mode);
            let error = token.read().unwrap_err().to_string();
            assert!(error.contains(says), "{text:?} {mode:o}: {error}");
            assert!(
                text.len() < 5 || !error.contains(text),
                "a token is not shown"
            );
        }
        let missing = TokenFile::new(Path::new("/nonexistent/token"));
        assert!(
            missing
                .read()
                .unwrap_err()
                .to_string()
                .contains("/nonexistent/token")
        );
    }
}
