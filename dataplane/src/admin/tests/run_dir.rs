//! Who a run directory and its socket belong to.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_run_directory_belongs_to_one_agent() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("run/weft");
    let held = RunDir::lock(&path).expect("nobody else has it");
    let mode = std::fs::metadata(&path).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let second = RunDir::lock(&path).expect_err("taken");
    let expected = format!("another agent (pid {}) runs on", std::process::id());
    assert!(second.to_string().starts_with(&expected), "{second}");
    drop(held);
    RunDir::lock(&path).expect("free again");
}

#[tokio::test]
async fn the_socket_is_private_and_a_stale_one_is_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("agent.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a stale socket"));
    let refused = connect(dir.path()).await.expect_err("nobody listens");
    assert!(refused.to_string().contains("weft up"), "{refused}");
    let run = RunDir::lock(dir.path()).expect("free");
    let _listener = run.listen().expect("replaced");
    let mode = std::fs::metadata(&socket)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(run);
    assert!(!socket.exists());
    let none = connect(&dir.path().join("elsewhere"))
        .await
        .expect_err("no such directory");
    assert!(none.to_string().starts_with("no agent runs on"), "{none}");
}
