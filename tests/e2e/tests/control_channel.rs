//! Between control plane and agents: nobody without the token gets a byte, and nobody is somebody else.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::{Context, ensure};
use tonic::Code;
use weft_e2e::certificates::spiffe_id;
use weft_e2e::channel::{Control, TOKEN, ads, certificate, strange_roots, weft, write_secret};
use weft_e2e::wait::LONG;
use weft_e2e::{Result, eventually};

const OTHER_TOKEN: &str = "00000000000000000000000000000000";

fn block<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build()?;
    runtime.block_on(async { tokio::time::timeout(LONG, future).await? })
}

#[test]
fn nobody_without_the_token_gets_a_byte() -> Result {
    let control = Control::start(&[])?;
    let web = spiffe_id("web");
    block(async {
        let (channel, _) = control.dial(&control.bundle()?).await?;
        for token in [None, Some(OTHER_TOKEN), Some(""), Some(&TOKEN[1..])] {
            let refused = ads(channel.clone(), token, "n1").await?.expect_err("ADS");
            ensure!(
                refused.code() == Code::Unauthenticated,
                "{token:?}: {refused:?}"
            );
            let refused = certificate(channel.clone(), token, Some("n1"), &web).await?;
            let refused = refused.expect_err("a certificate");
            ensure!(
                refused.code() == Code::Unauthenticated,
                "{token:?}: {refused:?}"
            );
        }
        let answer = ads(channel.clone(), Some(TOKEN), "n1").await??;
        ensure!(answer.resources.len() == 1, "{answer:?}");
        let chain = certificate(channel, Some(TOKEN), Some("n1"), &web).await??;
        ensure!(chain.len() == 3, "{chain:?}");

        // In plain text nobody is listened to, and TLS is for this mesh's control plane alone.
        if let Ok(plain) = control.dial_plain().await {
            ensure!(ads(plain, Some(TOKEN), "n1").await?.is_err());
        }
        let strange = control.dial(&strange_roots()?).await;
        ensure!(
            strange.is_err(),
            "a certificate of another CA was good enough"
        );
        Ok(())
    })
}

#[test]
fn a_new_token_counts_at_once() -> Result {
    let control = Control::start(&[])?;
    write_secret(&control.path("token"), OTHER_TOKEN)?;
    block(async {
        let (channel, _) = control.dial(&control.bundle()?).await?;
        let refused = ads(channel.clone(), Some(TOKEN), "n1").await?;
        ensure!(refused.is_err_and(|s| s.code() == Code::Unauthenticated));
        ads(channel.clone(), Some(OTHER_TOKEN), "n1").await??;
        // One that everybody can read opens for nobody.
        fs::set_permissions(control.path("token"), Permissions::from_mode(0o644))?;
        let refused = ads(channel, Some(OTHER_TOKEN), "n1").await?;
        ensure!(refused.is_err_and(|s| s.code() == Code::Unavailable));
        Ok(())
    })?;
    ensure!(control.log().contains("chmod 600"), "{}", control.log());
    Ok(())
}

#[test]
fn certificates_are_for_pods_of_the_node_that_asks() -> Result {
    let control = Control::start(&[])?;
    block(async {
        let (channel, _) = control.dial(&control.bundle()?).await?;
        let ask = async |node: Option<&str>, id: &str| {
            certificate(channel.clone(), Some(TOKEN), node, id).await
        };
        for (node, id, says) in [
            (
                Some("n2"),
                spiffe_id("web"),
                "no pod with the service account",
            ),
            (
                Some("n1"),
                spiffe_id("pay"),
                "no pod with the service account",
            ),
            (
                Some("n1"),
                "spiffe://cluster.local/ns/other/sa/web".to_owned(),
                "no pod",
            ),
            (
                Some("n1"),
                "spiffe://other.example/ns/default/sa/web".to_owned(),
                "trust domain",
            ),
            (None, spiffe_id("web"), "weft-node is missing"),
        ] {
            let refused = ask(node, &id).await?.expect_err(says);
            ensure!(refused.code() == Code::PermissionDenied, "{refused:?}");
            ensure!(refused.message().contains(says), "{refused:?}");
        }
        ask(Some("n1"), &spiffe_id("web")).await??;
        Ok(())
    })?;
    ensure!(
        control.log().contains("certificate refused"),
        "{}",
        control.log()
    );
    // A pod that is gone has no identity any more.
    fs::remove_file(control.path("manifests/pod.yaml"))?;
    eventually(LONG, || {
        block(async {
            let (channel, _) = control.dial(&control.bundle()?).await?;
            let asked = certificate(channel, Some(TOKEN), Some("n1"), &spiffe_id("web")).await?;
            ensure!(asked.is_err(), "still signed");
            Ok(())
        })
    })
}

#[test]
fn the_servers_certificate_and_root_are_renewed_while_it_serves() -> Result {
    let control = Control::start(&["--svid-life", "4s", "--root-overlap", "2s"])?;
    let first = control.bundle()?;
    block(async {
        let (held, serial) = control.dial(&first).await?;
        ads(held.clone(), Some(TOKEN), "n1").await??;
        loop {
            let (_, now) = control.dial(&first).await?;
            if now != serial {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        // The connection from before goes on.
        ads(held, Some(TOKEN), "n1").await??;
        Ok(())
    })?;
    let ca = control.path("ca").display().to_string();
    let rotated = weft(&["ca", "rotate", "--ca-dir", &ca])?.output()?;
    ensure!(rotated.status.success(), "{rotated:?}");
    let both = eventually(LONG, || {
        let both = control.bundle()?;
        ensure!(both.len() == 2, "{both:?}");
        Ok(both)
    })?;
    // With both roots there is no moment at which it is not trusted; with the first alone there comes one.
    eventually(LONG, || {
        block(async {
            control.dial(&both).await.context("both roots")?;
            Ok(control.dial(&first).await)
        })
        .and_then(|only_first| {
            ensure!(only_first.is_err(), "the new root has not taken over");
            Ok(())
        })
    })?;
    ensure!(control.bundle()? == both, "the old root has gone too early");
    Ok(())
}

fn fails(args: &[&str]) -> Result<String> {
    let output = weft(args)?.output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1), "{args:?}: {output:?}");
    Ok(said)
}

#[test]
fn tokens_and_cas_that_protect_nothing_are_refused_with_a_sentence() -> Result {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (token, ca) = (path("token"), path("ca"));
    let all = [
        "control",
        "--metrics",
        "none",
        "--listen",
        "127.0.0.1:0",
        "--manifests",
    ];
    let manifests = folder.path().display().to_string();
    let all = [
        &all,
        [
            manifests.as_str(),
            "--ca-dir",
            &ca,
            "--join-token-file",
            &token,
        ]
        .as_slice(),
    ];
    let all = all.concat();
    for (text, mode, says) in [
        ("", 0o600, "is empty"),
        ("short", 0o600, "at least 22"),
        (TOKEN, 0o644, "chmod 600"),
        (TOKEN, 0o666, "chmod 600"),
    ] {
        fs::write(&token, text)?;
        fs::set_permissions(&token, Permissions::from_mode(mode))?;
        let said = fails(&all)?;
        ensure!(
            said.contains(says) && said.contains(&token),
            "{says}: {said}"
        );
    }
    fs::remove_file(&token)?;
    let said = fails(&all)?;
    ensure!(said.contains(&token), "{said}");

    write_secret(folder.path().join("token").as_path(), TOKEN)?;
    let key = path("ca/intermediate-key.pem");
    fs::set_permissions(&key, Permissions::from_mode(0o640))?;
    let said = fails(&all)?;
    ensure!(said.contains("chmod 600") && said.contains(&key), "{said}");
    let other = [&all[..], &["--trust-domain", "other.example"]].concat();
    fs::set_permissions(&key, Permissions::from_mode(0o600))?;
    let said = fails(&other)?;
    ensure!(
        said.contains("cluster.local, not for other.example"),
        "{said}"
    );
    let said = fails(&["ca", "rotate", "--ca-dir", &path("nowhere")])?;
    ensure!(said.contains("no CA in"), "{said}");
    Ok(())
}
