use std::path::PathBuf;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use clap::Parser;
use tower::ServiceExt;

use super::*;
use crate::args::{Cli, Verb};

const TOKEN: &str = "0123456789abcdef";

fn args(line: &str) -> UiArgs {
    let words = ["weft", "ui"].into_iter().chain(line.split_whitespace());
    match Cli::parse_from(words).verb {
        Verb::Ui(args) => args,
        other => panic!("{other:?}"),
    }
}

fn served(args: &UiArgs) -> Router {
    let watch = Watch::new(&[PathBuf::from("/nowhere")]);
    let watch = Arc::new(Mutex::new(watch));
    router(Shared { watch }, Guard::new(args).expect("a guard"))
}

async fn get_as(router: &Router, path: &str, host: &str, token: Option<&str>) -> Response<Body> {
    let mut request = Request::get(path).header(header::HOST, host);
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Body::empty()).expect("a request");
    router.clone().oneshot(request).await.expect("an answer")
}

async fn status(router: &Router, path: &str, host: &str, token: Option<&str>) -> u16 {
    get_as(router, path, host, token).await.status().as_u16()
}

#[tokio::test]
async fn only_its_own_names_are_answered() {
    let router = served(&args("--ui-host mesh.example"));
    for host in [
        "localhost:15030",
        "127.0.0.1:15030",
        "[::1]:15030",
        "Mesh.Example",
    ] {
        assert_eq!(status(&router, "/", host, None).await, 200, "{host}");
        let map = status(&router, "/api/map?window=10", host, None).await;
        assert_eq!(map, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "", "[::1"] {
        let map = status(&router, "/api/map?window=10", host, None).await;
        assert!(map == 421 || host == "[::1", "{host}");
    }
}

#[tokio::test]
async fn a_token_guards_what_is_told_and_not_the_page() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).expect("written");
    let router = served(&args(&format!("--ui-token-file {}", file.display())));
    assert_eq!(status(&router, "/", "localhost", None).await, 200);
    for path in [
        "/api/map?window=10",
        "/api/flows?from=shop",
        "/api/policies?object=x",
    ] {
        for token in [None, Some("wrong"), Some("0123456789abcdeX"), Some("")] {
            assert_eq!(status(&router, path, "localhost", token).await, 401);
        }
        assert_eq!(status(&router, path, "localhost", Some(TOKEN)).await, 200);
    }
    std::fs::write(&file, "short").expect("written");
    let short = args(&format!("--ui-token-file {}", file.display()));
    assert!(Guard::new(&short).is_err());
}

#[tokio::test]
async fn every_answer_forbids_all_but_its_own_files() {
    let router = served(&args(""));
    for path in ["/", "/app.js", "/api/map?window=10", "/nothing"] {
        let response = get_as(&router, path, "localhost", None).await;
        let found = response.headers().get(header::CONTENT_SECURITY_POLICY);
        let policy = found.expect("a policy").to_str().expect("text");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        let sniff = response.headers().get(header::X_CONTENT_TYPE_OPTIONS);
        assert_eq!(sniff.expect("set"), "nosniff");
    }
    let nothing = get_as(&router, "/nothing", "localhost", None).await;
    assert_eq!(nothing.status(), StatusCode::NOT_FOUND);
}

#[test]
fn beyond_loopback_a_token_is_needed() {
    assert!(args("").check().is_ok());
    assert!(args("--ui-listen [::1]:1").check().is_ok());
    assert!(args("--ui-listen 0.0.0.0:15030").check().is_err());
    assert!(
        args("--ui-listen 0.0.0.0:15030 --ui-token-file x")
            .check()
            .is_ok()
    );
}
