//! Asking agents, again and again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::time::timeout;
use tonic::transport::Channel;
use weft_dataplane::admin;
use weft_proto::wire::admin::v1::admin_client::AdminClient;
use weft_proto::wire::admin::v1::edge_item::Item;
use weft_proto::wire::admin::v1::{EdgesHead, ListEdgesRequest};

use super::{Counts, History, Key};

/// An agent that takes longer for an answer is taken for gone.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What one agent said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) head: EdgesHead,
    pub(crate) counts: Vec<(Key, Counts)>,
}

/// How one agent does.
#[derive(Clone, Debug)]
pub(crate) struct AgentState {
    /// Its run directory or socket.
    pub(crate) path: PathBuf,
    /// Its node; empty before its first answer.
    pub(crate) node: String,
    /// Why it does not answer now.
    pub(crate) error: Option<String>,
    /// It has more open connections than it looked at.
    pub(crate) partial: bool,
    /// Events that found no room in the kernel.
    pub(crate) lost: u64,
}

/// Agents that are asked, and what they said.
pub(crate) struct Watch {
    agents: Vec<Agent>,
    history: History,
}

struct Agent {
    state: AgentState,
    client: Option<AdminClient<Channel>>,
    /// The latest; stays when the agent goes.
    answer: Answer,
}

impl Watch {
    /// Of the agents with these run directories or sockets; none is asked yet.
    pub(crate) fn new(paths: &[PathBuf]) -> Self {
        let agent = |path: &PathBuf| Agent {
            state: AgentState {
                path: path.clone(),
                node: String::new(),
                error: Some("not asked yet".to_owned()),
                partial: false,
                lost: 0,
            },
            client: None,
            answer: Answer::default(),
        };
        Self {
            agents: paths.iter().map(agent).collect(),
            history: History::default(),
        }
    }

    /// What they said so far.
    pub(crate) const fn history(&self) -> &History {
        &self.history
    }

    /// How they do.
    pub(crate) fn states(&self) -> Vec<AgentState> {
        self.agents.iter().map(|a| a.state.clone()).collect()
    }

    /// Asks `watch`'s agents every `interval`, all at the same time, until the future is dropped; others look at it meanwhile.
    /// `told` hears when there is something new.
    pub(crate) async fn run(watch: Arc<Mutex<Self>>, interval: Duration, told: impl Fn()) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let asked: Vec<_> = lock(&watch)
                .agents
                .iter_mut()
                .map(|a| (a.state.path.clone(), a.client.take()))
                .collect();
            let asking = asked.into_iter().map(|(path, client)| async move {
                let answered = timeout(ANSWER_WITHIN, ask(&path, client)).await;
                answered.unwrap_or_else(|_| Err(anyhow::anyhow!("the agent does not answer")))
            });
            let answers = futures::future::join_all(asking).await;
            lock(&watch).take(answers, Instant::now());
            told();
        }
    }

    fn take(&mut self, answers: Vec<Result<(AdminClient<Channel>, Answer)>>, now: Instant) {
        let mut anew = false;
        for (agent, answer) in self.agents.iter_mut().zip(answers) {
            let (client, answer) = match answer {
                Ok(answered) => answered,
                Err(error) => {
                    agent.state.error = Some(format!("{error:#}"));
                    continue;
                }
            };
            let (before, after) = (&agent.answer.head, &answer.head);
            // It counts from zero, or is another one's: nothing of before can be compared with.
            anew |= before.started_unix_nano != 0
                && before.started_unix_nano != after.started_unix_nano;
            // One that is new brings all that it has counted so far.
            anew |= before.started_unix_nano == 0;
            agent.state.node.clone_from(&after.node);
            agent.state.partial = after.partial;
            agent.state.lost = after.events_lost;
            agent.state.error = None;
            agent.client = Some(client);
            agent.answer = answer;
        }
        if anew {
            self.history.clear();
        }
        let mut all: HashMap<Key, Counts> = HashMap::new();
        for (key, counts) in self.agents.iter().flat_map(|a| &a.answer.counts) {
            match all.get_mut(key) {
                Some(sum) => sum.add(counts),
                None => drop(all.insert(key.clone(), counts.clone())),
            }
        }
        if self.agents.iter().any(|a| a.state.error.is_none()) {
            self.history.push(now, all);
        }
    }
}

fn lock(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks one agent, over `client` if there is one already.
async fn ask(
    path: &Path,
    client: Option<AdminClient<Channel>>,
) -> Result<(AdminClient<Channel>, Answer)> {
    let mut client = match client {
        Some(client) => client,
        None => admin::connect(path).await?,
    };
    let request = ListEdgesRequest { open: true };
    let asked = client.list_edges(request).await;
    let mut items = asked.map_err(|e| said(&e))?.into_inner();
    let mut answer = Answer::default();
    while let Some(item) = items.message().await.map_err(|e| said(&e))? {
        match item.item {
            Some(Item::Head(head)) => answer.head = head,
            Some(Item::Edge(edge)) => answer.counts.push(Counts::read(&edge)),
            // Of a newer agent.
            None => {}
        }
    }
    (answer.head.started_unix_nano != 0)
        .then_some((client, answer))
        .context("the agent said nothing of itself")
}

fn said(status: &tonic::Status) -> anyhow::Error {
    anyhow::anyhow!("the agent said: {}", status.message())
}
