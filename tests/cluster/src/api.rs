//! A client of the API server: create, replace, ask whether it is ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use weft_lab::netns::Netns;

/// Requests in flight when many objects are created.
const WRITERS: usize = 8;
/// Patience with one request.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client that speaks from inside the control plane's network namespace.
pub struct Api {
    agent: Agent,
    url: String,
    authorization: String,
    netns: Netns,
}

impl Api {
    pub(crate) fn new(url: String, ca: &[u8], token: &str, netns: Netns) -> Result<Self> {
        let ca = Certificate::from_pem(ca).context("reading the CA certificate")?;
        let roots = RootCerts::Specific(Arc::new(vec![ca]));
        let config = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .timeout_global(Some(PATIENCE))
            .max_idle_connections_per_host(WRITERS)
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .build();
        let authorization = format!("Bearer {token}");
        Ok(Self {
            agent: config.into(),
            url,
            authorization,
            netns,
        })
    }

    /// Whether the server says that it is ready. Never waits long.
    pub fn ready(&self) -> bool {
        self.send("GET", "/readyz", None)
            .is_ok_and(|(status, _)| status < 300)
    }

    /// The object at `path`, such as `/api/v1/nodes/n1`; `None` when there is none.
    pub fn get(&self, path: &str) -> Result<Option<Value>> {
        let (status, body) = self.send("GET", path, None)?;
        match status {
            404 => Ok(None),
            _ => Ok(Some(understood("GET", path, status, &body)?)),
        }
    }

    /// Creates one object below `path`, such as `/api/v1/nodes`. Returns it as the server has it.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.write("POST", path, object)
    }

    /// Replaces the object at `path`.
    pub fn replace(&self, path: &str, object: &Value) -> Result<Value> {
        self.write("PUT", path, object)
    }

    /// Changes the object at `path` by a JSON merge patch.
    pub fn patch(&self, path: &str, patch: &Value) -> Result<Value> {
        self.write("PATCH", path, patch)
    }

    /// Removes the object at `path`.
    pub fn delete(&self, path: &str) -> Result<Value> {
        let (status, body) = self.send("DELETE", path, None)?;
        understood("DELETE", path, status, &body)
    }

    /// Creates `count` objects below `path`, several at a time.
    pub fn create_all(
        &self,
        path: &str,
        count: u32,
        object: impl Fn(u32) -> Value + Sync,
    ) -> Result<()> {
        let next = AtomicU32::new(0);
        let write = || -> Result<()> {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok(());
                }
                let object = object(index).to_string();
                let (status, body) = self.send_here("POST", path, Some(&object))?;
                understood("POST", path, status, &body)?;
            }
        };
        self.netns.run(|| {
            thread::scope(|scope| {
                let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
                writers.into_iter().try_for_each(|writer| {
                    writer
                        .join()
                        .map_err(|_| anyhow::anyhow!("an API writer panicked"))?
                })
            })
        })?
    }

    fn write(&self, method: &str, path: &str, object: &Value) -> Result<Value> {
        let (status, body) = self.send(method, path, Some(&object.to_string()))?;
        understood(method, path, status, &body)
    }

    fn send(&self, method: &str, path: &str, body: Option<&str>) -> Result<(u16, String)> {
        self.netns.run(|| self.send_here(method, path, body))?
    }

    /// In the thread's own network namespace.
    fn send_here(&self, method: &str, path: &str, body: Option<&str>) -> Result<(u16, String)> {
        let content = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("authorization", &self.authorization)
            .header("content-type", content)
            .body(body.unwrap_or_default().to_owned())?;
        let mut answer = (self.agent.run(request))
            .with_context(|| format!("{method} {path} at the API server"))?;
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        Ok((answer.status().as_u16(), text))
    }
}

fn understood(method: &str, path: &str, status: u16, body: &str) -> Result<Value> {
    if !(200..300).contains(&status) {
        bail!("the API server refused {method} {path}: {status} {body}");
    }
    Ok(serde_json::from_str(body)?)
}
