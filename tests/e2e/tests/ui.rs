//! `weft ui` in a real browser: what people see and do on the page.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::TryRecvError;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use weft_e2e::browser::Browser;
use weft_e2e::crowd::{Crowd, busy};
use weft_e2e::mesh::{TARGET, vip_addresses, vips};
use weft_e2e::wait::LONG;
use weft_e2e::{Mesh, Result, eventually};
use weft_lab::manifest::{ServiceManifest, ServicePort};
use weft_lab::{GetOptions, Lab, PodSpec, tools};
use weft_proto::wire::admin::v1::Edge;

const POLICY: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: bank}
spec:
  podSelector: {matchLabels: {app: ledger}}
  policyTypes: [Ingress]
";

/// A page server beside the lab; it ends when dropped.
struct Server(Child);

impl Server {
    /// Shows the agent at `socket`; gives the page's address.
    fn start(socket: &Path) -> Result<(Self, String)> {
        let mut child = Command::new(tools::weft()?)
            .args(["ui", "--ui-listen", "127.0.0.1:0", "--agent"])
            .arg(socket)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take().context("no pipe")?;
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
        Ok((Self(child), line.trim().to_owned()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(mesh: &Mesh, client: &str, to: std::net::SocketAddr, times: u32) -> Result {
    let options = GetOptions::tcp(times).timeout(Duration::from_millis(500));
    mesh.pod(client)?.get(to, &options)?;
    Ok(())
}

/// The text of the list's row that has all of `words`.
fn row(browser: &Browser, words: &[&str]) -> Result<String> {
    eventually(LONG, || {
        let list = browser.eval("[...document.querySelectorAll('.edge')].map(e => e.innerText)")?;
        let rows = list.as_array().cloned().unwrap_or_default();
        let rows = rows.iter().filter_map(Value::as_str);
        let found = rows
            .clone()
            .find(|row| words.iter().all(|w| row.contains(w)));
        found
            .map(str::to_owned)
            .with_context(|| format!("no row with {words:?}: {:?}", rows.collect::<Vec<_>>()))
    })
}

#[test]
fn the_map_shows_who_talks_to_whom_and_who_refused() -> Result {
    let pod = |name: &str, namespace: &str, node: &str| {
        PodSpec::new(name, node)
            .namespace(namespace)
            .label("app", name)
    };
    let mut mesh = Mesh::start(
        Lab::builder()
            .node("n1")
            .node("n2")
            .pod(pod("web", "shop", "n1"))
            .pod(pod("cart", "shop", "n1"))
            .pod(pod("catalog", "shop", "n2"))
            .pod(pod("checkout", "shop", "n2"))
            .pod(pod("payments", "shop", "n2"))
            .pod(pod("report", "jobs", "n1"))
            .pod(pod("ledger", "bank", "n2")),
    )?;
    mesh.serve(&["cart", "catalog", "checkout", "payments", "ledger"])?;
    let service = ServiceManifest::new("pay").namespace("shop");
    let service = service.cluster_ips(vip_addresses(1));
    let service = service.port(ServicePort::tcp(80).named("http").to(TARGET));
    mesh.service(&service.selector("app", "payments"), 1)?;
    mesh.apply("closed", POLICY)?;
    let node = mesh.lab.node("n1")?;
    let mut page = node.command(tools::weft()?).arg("ui");
    for name in ["n1", "n2"] {
        page = page.arg("--agent").arg(mesh.lab.node(name)?.run_dir());
    }
    let mut page = page.spawn()?;
    page.wait_for_line("http://", LONG)?;
    let url = page.stdout().trim().to_owned();
    ensure!(url == "http://127.0.0.1:15030/", "{url}");
    let browser = Browser::open(Some(node.netns()), &url)?;
    browser.wait("document.querySelector('#agents').innerText.includes('2 of 2 nodes')")?;

    // All the while: rates are of the last seconds.
    let ledger = mesh.pod("ledger")?.socket_v4(TARGET);
    let at = |pod: &str| Ok::<_, anyhow::Error>(mesh.pod(pod)?.socket_v4(TARGET));
    let (cart, catalog, checkout) = (at("cart")?, at("catalog")?, at("checkout")?);
    thread::scope(|scope| {
        let (done, end) = std::sync::mpsc::channel::<()>();
        let mesh = &mesh;
        scope.spawn(move || {
            while end.try_recv() == Err(TryRecvError::Empty) {
                let _ = ask(mesh, "web", vips(1)[0], 20);
                let _ = ask(mesh, "web", cart, 10);
                let _ = ask(mesh, "web", catalog, 40);
                let _ = ask(mesh, "web", checkout, 6);
                let _ = ask(mesh, "checkout", vips(1)[0], 6);
                let _ = ask(mesh, "checkout", cart, 3);
                let _ = ask(mesh, "report", catalog, 2);
                let _ = ask(mesh, "cart", ledger, 1);
            }
        });
        let seen = use_page(&browser);
        drop(done);
        seen
    })
}

fn use_page(browser: &Browser) -> Result {
    let allowed = row(browser, &["shop/web → shop/payments", "RTT"])?;
    ensure!(!allowed.contains("refused"), "{allowed}");
    row(browser, &["shop/web → shop/cart"])?;
    let refused = row(browser, &["shop/cart → bank/ledger", "⊘", "refused"])?;
    ensure!(refused.contains("/s refused"), "{refused}");
    browser.picture("ui-map")?;

    // With the keyboard alone: what is refused comes first.
    browser.eval("document.querySelector('.edge').focus()")?;
    browser.press("Enter")?;
    browser.wait(
        "document.querySelector('#detail').innerText.includes('NetworkPolicy bank/closed')",
    )?;
    browser.wait("document.querySelector('#detail').innerText.includes('selects bank/ledger')")?;
    browser.wait("document.querySelector('#detail').innerText.includes('bank/ledger (n2)')")?;
    ensure!(browser.text("#detail .refused")?.contains("isolated"));
    browser.picture("ui-refused")?;
    browser.press("Escape")?;
    browser.wait("document.querySelector('#detail').hidden")?;

    browser.press("/")?;
    for letter in ["p", "a", "y"] {
        browser.press(letter)?;
    }
    browser.wait("document.querySelectorAll('.edge').length === 2")?;
    row(browser, &["shop/web → shop/payments"])?;
    browser.eval("document.querySelector('#search').value = ''; document.querySelector('#search').dispatchEvent(new Event('input')); document.activeElement.blur()")?;

    browser.press("p")?;
    browser.wait("document.querySelector('#pause').innerText === 'Go on'")?;
    browser.press("p")?;
    browser.eval("document.querySelector('input[value=\"60\"]').click()")?;
    row(browser, &["shop/web → shop/payments"])?;
    browser.scheme("dark")?;
    browser.wait("getComputedStyle(document.body).backgroundColor === 'rgb(14, 20, 28)'")?;
    browser.picture("ui-map-dark")?;
    Ok(())
}

/// Names with whatever somebody could write into them.
fn hostile(since: Duration) -> Vec<Edge> {
    let name = "<img src=x onerror=\"document.title='taken'\">";
    let edge = Edge {
        source_namespace: "a\u{202e}b".into(),
        source_workload: name.into(),
        destination_namespace: "</script><script>document.title='taken'</script>".into(),
        destination_workload: "\u{0}\u{1b}[31m\u{7f}\u{fffd}".into(),
        service: name.into(),
        direction: "egress".into(),
        opened: since.as_secs() + 1,
        ..Edge::default()
    };
    vec![edge]
}

#[test]
fn names_are_text_whatever_is_in_them() -> Result {
    let dir = tempfile::tempdir()?;
    let socket = dir.path().join("agent.sock");
    let _crowd = Crowd::start(&socket, hostile)?;
    let (_server, url) = Server::start(&socket)?;
    let browser = Browser::open(None, &url)?;
    row(&browser, &["<img src=x onerror"])?;
    browser.eval("document.querySelector('.edge').click()")?;
    browser.wait("document.querySelector('#detail').innerText.includes('<img src=x')")?;
    let elements = "document.querySelectorAll('main img, main script').length";
    ensure!(browser.eval(elements)? == 0);
    ensure!(browser.eval("document.title")? == "Weft");
    Ok(())
}

#[test]
fn two_hundred_workloads_are_drawn_and_a_page_left_open_does_not_grow() -> Result {
    let dir = tempfile::tempdir()?;
    let socket = dir.path().join("agent.sock");
    let _crowd = Crowd::start(&socket, |since| busy(200, 2_000, since))?;
    let (_server, url) = Server::start(&socket)?;
    // The server has to have asked its agent twice before there are rates.
    thread::sleep(Duration::from_secs(2));
    let browser = Browser::open(None, &url)?;
    browser.wait("document.querySelector('#totals').innerText.startsWith('200 workloads')")?;
    row(&browser, &["team-", "refused"])?;
    let first = browser.eval("window.weft.first")?;
    // Every frame is drawn: the map is dragged for three seconds.
    let rate = browser.eval(
        "(async () => {
            const map = document.querySelector('#map');
            const point = (type, x) => map.dispatchEvent(new PointerEvent(type, { pointerId: 1, clientX: x, clientY: 300 }));
            map.setPointerCapture = () => {};
            point('pointerdown', 300);
            const [start, before] = [performance.now(), window.weft.frames];
            let x = 300;
            while (performance.now() - start < 3000) {
                await new Promise(requestAnimationFrame);
                point('pointermove', x = x > 600 ? 300 : x + 7);
            }
            point('pointerup', x);
            return (window.weft.frames - before) / (performance.now() - start) * 1000;
        })()",
    )?;
    // Closer and closer, then from further and further away.
    let zoomed = browser.eval(
        "(async () => {
            const map = document.querySelector('#map');
            const [start, before] = [performance.now(), window.weft.frames];
            for (let n = 0; performance.now() - start < 3000; n++) {
                await new Promise(requestAnimationFrame);
                map.dispatchEvent(new WheelEvent('wheel', { deltaY: n % 60 < 30 ? -10 : 10, clientX: 500, clientY: 400, cancelable: true }));
            }
            return (window.weft.frames - before) / (performance.now() - start) * 1000;
        })()",
    )?;
    println!(
        "200 workloads, 2,000 edges: first map after {first} ms; {rate} frames a second while dragged, {zoomed} while zoomed"
    );
    ensure!(
        zoomed.as_f64().unwrap_or_default() > 1.0,
        "nothing is drawn"
    );
    ensure!(rate.as_f64().unwrap_or_default() > 1.0, "nothing is drawn");
    browser.picture("ui-200-workloads")?;

    // One answer or many: as many elements, and nothing kept of what was. Which rows are slow changes with their rates.
    let elements = "document.querySelectorAll('*:not(.slow)').length";
    let before = browser.eval(elements)?;
    let frames = browser.eval("window.weft.frames")?;
    eventually(LONG, || {
        let now = browser.eval("window.weft.frames")?;
        let answers = now.as_f64().unwrap_or_default() - frames.as_f64().unwrap_or_default();
        ensure!(answers >= 5.0, "{answers} answers");
        Ok(())
    })?;
    ensure!(browser.eval(elements)? == before, "the page has grown");
    Ok(())
}
