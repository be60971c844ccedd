//! Who may see: whoever reaches the server and calls it by its name, with the token where there is one.
//!
//! The page asks with a header and not with a cookie, so another site's page cannot ask in its name; and as the server answers to its own
//! names only, such a page cannot have one of its own point here either (DNS rebinding).

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::args::UiArgs;

/// A shorter token can be guessed.
const LEAST_TOKEN: usize = 16;

/// Nothing but the page's own files, no frames around it, nothing sent elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The rules. Clones share them.
#[derive(Clone)]
pub(super) struct Guard {
    token: Option<Arc<str>>,
    /// In lower case, without ports.
    hosts: Arc<HashSet<String>>,
}

impl Guard {
    /// As the options say.
    ///
    /// # Errors
    /// When the token cannot be read, or is too short.
    pub(super) fn new(args: &UiArgs) -> Result<Self> {
        let token = match &args.ui_token_file {
            None => None,
            Some(file) => {
                let text = fs::read_to_string(file);
                let text = text.with_context(|| format!("--ui-token-file {}", file.display()))?;
                let token = text.trim();
                ensure!(
                    token.len() >= LEAST_TOKEN && token.bytes().all(|b| b.is_ascii_graphic()),
                    "--ui-token-file {}: give at least {LEAST_TOKEN} printable characters, such as of `openssl rand -hex 16`",
                    file.display()
                );
                Some(token.into())
            }
        };
        let own = args.ui_listen.ip().to_string();
        let names = ["localhost", "127.0.0.1", "::1", &own].map(str::to_owned);
        let given = args.ui_host.iter().map(|host| host.to_lowercase());
        Ok(Self {
            token,
            hosts: Arc::new(names.into_iter().chain(given).collect()),
        })
    }

    pub(super) const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    fn knows_host(&self, value: Option<&HeaderValue>) -> bool {
        let Some(text) = value.and_then(|v| v.to_str().ok()) else {
            return false;
        };
        self.hosts.contains(&without_port(text).to_lowercase())
    }

    fn admits(&self, value: Option<&HeaderValue>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let given = value.map(HeaderValue::as_bytes).unwrap_or_default();
        let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
        is_same(given, token.as_bytes())
    }
}

/// "[::1]:80", "localhost:80", "127.0.0.1".
fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.split(':').next().unwrap_or_default()
}

/// In a time that does not tell how far they are alike.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differing) == 0
}

/// Refuses who calls the server by a name that is not its own.
pub(super) async fn host(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    if guard.knows_host(request.headers().get(HOST)) {
        return next.run(request).await;
    }
    let text = "this server does not go by that name: start it with --ui-host NAME\n";
    (StatusCode::MISDIRECTED_REQUEST, text).into_response()
}

/// Refuses who has not the token.
pub(super) async fn token(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    if guard.admits(request.headers().get(AUTHORIZATION)) {
        return next.run(request).await;
    }
    let text = "a token is needed: open the page as /#token=TOKEN\n";
    (StatusCode::UNAUTHORIZED, text).into_response()
}

/// What each answer says to the browser.
pub(super) async fn headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
