//! A headless Chromium, spoken to over pipes in its DevTools protocol: the page is used as a person would, and looked at.
//!
//! Source: <https://chromedevtools.github.io/devtools-protocol/>.

use std::cell::{Cell, RefCell};
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use weft_lab::netns::Netns;

use crate::wait::LONG;
use crate::{Result, eventually};

/// Chromium reads commands from descriptor 3 and writes answers to 4.
const SHELL: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"#;
/// Names by which distributions install it.
const NAMES: [&str; 4] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
];

/// A browser with one page; it ends when dropped.
pub struct Browser {
    child: Child,
    commands: RefCell<ChildStdin>,
    answers: Receiver<Value>,
    number: Cell<u64>,
    session: String,
    _profile: tempfile::TempDir,
}

/// Its binary: `WEFT_TEST_BROWSER`, else the one on PATH that scripts/setup has installed.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = env::var_os("WEFT_TEST_BROWSER") {
        return path.into();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = NAMES
        .iter()
        .flat_map(|name| env::split_paths(&path).map(move |dir| dir.join(name)))
        .find(|file| file.exists());
    assert!(
        found.is_some(),
        "no browser: run scripts/setup, or name one in WEFT_TEST_BROWSER"
    );
    found.unwrap_or_default()
}

impl Browser {
    /// Opens `url`, in the network namespace `netns` if one is given.
    ///
    /// # Errors
    /// When it does not start.
    pub fn open(netns: Option<&Netns>, url: &str) -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let mut command = Command::new("sh");
        command
            .args(["-c", SHELL])
            .arg(binary())
            .args(["--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--no-first-run", "--disable-dev-shm-usage"])
            .args(["--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = match netns {
            Some(netns) => netns.run(|| command.spawn())??,
            None => command.spawn()?,
        };
        let commands = child.stdin.take().context("no pipe")?;
        let answers = read(child.stdout.take().context("no pipe")?);
        let mut browser = Self {
            child,
            commands: RefCell::new(commands),
            answers,
            number: Cell::new(0),
            session: String::new(),
            _profile: profile,
        };
        browser.attach(url)?;
        Ok(browser)
    }

    fn attach(&mut self, url: &str) -> Result {
        let target = self.call("Target.createTarget", &json!({"url": "about:blank"}))?;
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", &target)?;
        let session = attached["sessionId"].as_str().context("no session")?;
        session.clone_into(&mut self.session);
        self.call("Page.enable", &json!({}))?;
        self.size(1_440, 900)?;
        self.call("Page.navigate", &json!({"url": url}))?;
        Ok(())
    }

    /// Says something to the page and returns the answer.
    ///
    /// # Errors
    /// When the browser refuses, or does not answer.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value> {
        let number = self.number.get() + 1;
        self.number.set(number);
        let mut message = json!({"id": number, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = serde_json::to_vec(&message)?;
        bytes.push(0);
        let mut commands = self.commands.borrow_mut();
        commands.write_all(&bytes)?;
        commands.flush()?;
        loop {
            let answer = self.answers.recv_timeout(LONG);
            let answer = answer.with_context(|| format!("no answer to {method}"))?;
            // Everything else tells of events.
            if answer["id"] == number {
                ensure!(answer.get("error").is_none(), "{method}: {answer}");
                return Ok(answer["result"].clone());
            }
        }
    }

    /// Width and height of the window.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn size(&self, width: u32, height: u32) -> Result {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &metrics)?;
        Ok(())
    }

    /// "dark" or "light".
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn scheme(&self, scheme: &str) -> Result {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &features)?;
        Ok(())
    }

    /// What an expression of JavaScript is in the page, after waiting for it if it is a promise.
    ///
    /// # Errors
    /// When it throws.
    pub fn eval(&self, expression: &str) -> Result<Value> {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", &asked)?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            bail!("{expression}: {thrown}");
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// When it does not get so.
    pub fn wait(&self, expression: &str) -> Result {
        eventually(LONG, || {
            ensure!(self.eval(expression)? == true, "{expression} is not so");
            Ok(())
        })
        .with_context(|| self.text("body").unwrap_or_default())
    }

    /// The text that people see of the first element that a selector finds.
    ///
    /// # Errors
    /// As [`Browser::eval`].
    pub fn text(&self, selector: &str) -> Result<String> {
        let selector = serde_json::to_string(selector)?;
        let text = self.eval(&format!(
            "document.querySelector({selector})?.innerText ?? ''"
        ))?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Presses a key, such as "Enter" or "/".
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn press(&self, key: &str) -> Result {
        let text = match key {
            "Enter" => "\r",
            one if one.chars().count() == 1 => one,
            _ => "",
        };
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        let mut down = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if !text.is_empty() {
            down["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", &down)?;
        self.call(
            "Input.dispatchKeyEvent",
            &json!({"type": "keyUp", "key": key}),
        )?;
        Ok(())
    }

    /// Clicks there.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn click(&self, x: f64, y: f64) -> Result {
        for sort in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": sort, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event)?;
        }
        Ok(())
    }

    /// Keeps a picture of the page as `NAME.png` in the folder `WEFT_SCREENSHOTS`, if there is one; gives its bytes.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn picture(&self, name: &str) -> Result<Vec<u8>> {
        let shot = self.call("Page.captureScreenshot", &json!({"format": "png"}))?;
        let bytes = STANDARD.decode(shot["data"].as_str().context("no picture")?)?;
        if let Some(folder) = env::var_os("WEFT_SCREENSHOTS") {
            fs::write(Path::new(&folder).join(format!("{name}.png")), &bytes)?;
        }
        Ok(bytes)
    }
}

/// A thread that ends with the browser.
fn read(stdout: ChildStdout) -> Receiver<Value> {
    let (sender, answers) = channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        loop {
            let mut bytes = Vec::new();
            match reader.read_until(0, &mut bytes) {
                Ok(n) if n > 0 => {}
                _ => return,
            }
            bytes.pop();
            let Ok(answer) = serde_json::from_slice(&bytes) else {
                continue;
            };
            if sender.send(answer).is_err() {
                return;
            }
        }
    });
    answers
}

impl Drop for Browser {
    fn drop(&mut self) {
        // In order first: it has children of its own, which end with it.
        let _ = self.call("Browser.close", &json!({}));
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
