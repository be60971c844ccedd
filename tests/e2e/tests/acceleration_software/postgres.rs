//! PostgreSQL with pgbench, and with TLS and without.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use weft_e2e::Result;
use weft_e2e::wait::{LONG, eventually};
use weft_lab::{Launch, Pod, Process};

use crate::site::{PORT, Polling, Site, WITHIN, compare};

/// It refuses to run as root.
const USER: &str = "nobody";

/// What pgbench leaves: by the TPC-B rules all four sums are one, and by its seed always the same one.
const SUMS: &str = "select sum(abalance), (select sum(bbalance) from pgbench_branches), (select sum(tbalance) from pgbench_tellers), \
    (select sum(delta) from pgbench_history), (select count(*) from pgbench_history) from pgbench_accounts";
/// A few megabytes to the client.
const ROWS: &str = "copy (select i, md5(i::text) from generate_series(1, 100000) i) to stdout";

/// The newest one that is installed; Debian keeps them apart by version.
fn program(name: &str) -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .context("no PostgreSQL: run scripts/install-software")?;
    let programs = versions
        .flatten()
        .map(|version| version.path().join("bin").join(name));
    let mut found: Vec<PathBuf> = programs.filter(|path| path.exists()).collect();
    found.sort();
    found
        .pop()
        .with_context(|| format!("no {name}: run scripts/install-software"))
}

fn as_user(pod: &Pod, name: &str) -> Result<Launch> {
    let user = ["--reuid", USER, "--regid", "nogroup", "--clear-groups"];
    Ok(pod.command("setpriv").args(user).arg(program(name)?))
}

fn postgres(site: &Site) -> Result<Process> {
    let pod = site.server()?;
    let data = site.folder.path().join("data");
    fs::create_dir(&data)?;
    fs::set_permissions(site.folder.path(), fs::Permissions::from_mode(0o755))?;
    let owner = format!("{USER}:nogroup");
    pod.command("chown")
        .arg(owner.as_str())
        .arg(&data)
        .run(LONG)?
        .success()?;
    let init =
        as_user(&pod, "initdb")?.args(["--no-sync", "--auth", "trust", "--username", "test", "-D"]);
    init.arg(&data).run(WITHIN)?.success()?;
    certify(&pod, &data, &owner)?;
    fs::write(data.join("pg_hba.conf"), "host all all 0.0.0.0/0 trust\n")?;
    let mut command = as_user(&pod, "postgres")?.arg("-D").arg(&data);
    let port = format!("port={PORT}");
    for setting in [
        port.as_str(),
        "listen_addresses=0.0.0.0",
        "unix_socket_directories=",
        "fsync=off",
        "ssl=on",
    ] {
        command = command.args(["-c", setting]);
    }
    site.serve(command)
}

fn certify(pod: &Pod, data: &Path, owner: &str) -> Result {
    let made = rcgen::generate_simple_self_signed(["server".to_owned()])?;
    let key = data.join("server.key");
    fs::write(data.join("server.crt"), made.cert.pem())?;
    fs::write(&key, made.signing_key.serialize_pem())?;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
    pod.command("chown")
        .arg(owner)
        .arg(&key)
        .run(LONG)?
        .success()?;
    Ok(())
}

/// Runs a client, whose connections are encrypted or not.
fn ask(site: &Site, tls: bool, name: &str, args: &[&str]) -> Result<String> {
    let (host, port) = (site.host()?, PORT.to_string());
    let command = site
        .client()?
        .command(program(name)?)
        .env("PGHOST", host)
        .env("PGPORT", port);
    let command = command.env("PGUSER", "test").env("PGDATABASE", "postgres");
    let command = command.env("PGSSLMODE", if tls { "require" } else { "disable" });
    Ok(command.args(args).run(WITHIN)?.success()?.stdout)
}

fn bench(site: &Site, tls: bool) -> Result<(String, String)> {
    let query = |sql: &str| ask(site, tls, "psql", &["-AtX", "-c", sql]);
    let encrypted = query("select ssl from pg_stat_ssl where pid = pg_backend_pid()")?;
    ensure!(
        encrypted.trim() == if tls { "t" } else { "f" },
        "encrypted: {encrypted}"
    );
    ask(site, tls, "pgbench", &["--initialize", "--quiet"])?;
    for protocol in ["simple", "prepared"] {
        let load = [
            "-c",
            "8",
            "-j",
            "2",
            "-t",
            "100",
            "-n",
            "--random-seed=1",
            "-M",
            protocol,
        ];
        let said = ask(site, tls, "pgbench", &load)?;
        ensure!(
            said.contains("transactions actually processed: 800/800"),
            "{said}"
        );
        ensure!(
            !said.contains("failed transactions: ") || said.contains("failed transactions: 0 "),
            "{said}"
        );
    }
    let sums = query(SUMS)?;
    let numbers: Vec<&str> = sums.trim().split('|').collect();
    ensure!(
        numbers.windows(2).take(3).all(|two| two[0] == two[1]),
        "the sums differ: {sums}"
    );
    Ok((sums, query(ROWS)?))
}

fn compare_bench(tls: bool) -> Result {
    compare(Polling::Always, |site| {
        let server = postgres(site)?;
        eventually(LONG, || ask(site, tls, "psql", &["-c", "select 1"]))?;
        let (sums, rows) = bench(site, tls)?;
        ensure!(
            rows.lines().count() == 100_000,
            "{} rows",
            rows.lines().count()
        );
        Ok((
            server,
            (sums, rows.len(), rows.lines().last().map(str::to_owned)),
        ))
    })
}

#[test]
fn pgbench_balances() -> Result {
    compare_bench(false)
}

#[test]
fn pgbench_balances_over_tls() -> Result {
    compare_bench(true)
}
