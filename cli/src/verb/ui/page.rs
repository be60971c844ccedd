//! The page's files, which are part of the binary.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;

/// Path, type, text.
const FILES: [(&str, &str, &str); 7] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("page/index.html"),
    ),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_str!("page/style.css"),
    ),
    ("/app.js", SCRIPT, include_str!("page/app.js")),
    ("/layout.js", SCRIPT, include_str!("page/layout.js")),
    ("/draw.js", SCRIPT, include_str!("page/draw.js")),
    ("/panel.js", SCRIPT, include_str!("page/panel.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Routes to them.
pub(super) fn routes() -> Router {
    FILES
        .into_iter()
        .fold(Router::new(), |router, (path, sort, text)| {
            let serve = move || async move { ([(CONTENT_TYPE, sort)], text).into_response() };
            router.route(path, get(serve))
        })
}
