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
    pub(super) fn new(url: String, ca: &[u8], token: &str, netns: Netns) -> Result<Self> {
        let ca = Certificate::from_pem(ca).context("reading the CA certificate")?;
        let roots = RootCerts::Specific(Arc::new(vec![ca]));
        let config = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .timeout_global(Some(PATIENCE))
            .max_idle_connections_per_host(WRITERS)
            .http_status_as_error(false)
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
        let url = format!("{}/readyz", self.url);
        let ask = || {
            let request = self
                .agent
                .get(&url)
                .header("authorization", &self.authorization);
            request
                .call()
                .is_ok_and(|answer| answer.status().is_success())
        };
        self.netns.run(ask).unwrap_or(false)
    }

    /// Creates one object below `path`, such as `/api/v1/nodes`.
    pub fn create(&self, path: &str, object: &Value) -> Result<()> {
        self.netns
            .run(|| self.send(self.agent.post(self.at(path)), object))?
    }

    /// Replaces the object at `path`.
    pub fn replace(&self, path: &str, object: &Value) -> Result<()> {
        self.netns
            .run(|| self.send(self.agent.put(self.at(path)), object))?
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
                self.send(self.agent.post(self.at(path)), &object(index))?;
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

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn send(
        &self,
        request: ureq::RequestBuilder<ureq::typestate::WithBody>,
        object: &Value,
    ) -> Result<()> {
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut answer = request
            .header("authorization", &self.authorization)
            .send_json(object)
            .with_context(|| format!("sending {name} to the API server"))?;
        let body = answer.body_mut().read_to_string().unwrap_or_default();
        if !answer.status().is_success() {
            bail!("the API server refused {name}: {} {body}", answer.status());
        }
        Ok(())
    }
}
