//! A node and the specifications, side by side.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::Result;

use crate::connection::{Connection, Protocol};
use crate::evaluate::{Judgement, Side, Verdict, View};
use crate::generate::{Boundaries, Random};
use crate::node::{Checked, Node};
use crate::object::Cluster;
use crate::packet::{self, Tcp};
use crate::scenario::{Disagreement, Scenario};

/// How many connections are opened at each step, how many of them live on, and from which port those come.
const NEW: usize = 25;
const LIVING: usize = 6;
const FIRST_PORT: u16 = 61_000;

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Verdicts about first packets.
    pub first: usize,
    /// Verdicts about packets of connections that were opened before.
    pub later: usize,
    /// Of all of them, those that let through.
    pub allowed: usize,
}

/// Lets a node live through scenarios.
#[derive(Debug, Default)]
pub struct Comparison {
    /// So far.
    pub count: Count,
    living: Vec<Living>,
    opened: u16,
}

/// An established connection, and the interfaces of its ends when it was opened.
#[derive(Debug)]
struct Living {
    connection: Connection,
    interfaces: [Option<u32>; 2],
}

impl Comparison {
    /// The first disagreement in a scenario with connections of `random`, and at which step; the node goes on from where it was.
    ///
    /// # Errors
    /// When the node fails.
    pub fn run(
        &mut self,
        node: &mut Node,
        scenario: &Scenario,
        random: &mut Random,
    ) -> Result<Option<(usize, Disagreement)>> {
        for (step, cluster) in scenario.steps.iter().enumerate() {
            node.apply(cluster)?;
            let view = scenario.view(step);
            if let Some(found) = self.later(node, view)? {
                return Ok(Some((step, found)));
            }
            let boundaries = Boundaries::of(cluster);
            for _ in 0..NEW {
                let Some(connection) = boundaries.connection(random) else {
                    break;
                };
                if self.is_living(&connection) {
                    continue;
                }
                if let Some(found) = self.first(node, view, &connection)? {
                    return Ok(Some((step, found)));
                }
                self.keep(node, view, &connection)?;
            }
        }
        Ok(None)
    }

    /// Whether a connection that is opened as soon as it may be, or at last, goes wrong in a scenario. The node begins and ends with an
    /// empty cluster.
    ///
    /// # Errors
    /// When the node fails.
    pub fn replay(
        node: &mut Node,
        scenario: &Scenario,
        connection: &Connection,
    ) -> Result<Option<Disagreement>> {
        node.kernel().forget_all()?;
        node.apply(&Cluster::default())?;
        let mut comparison = Self::default();
        let last = scenario.steps.len() - 1;
        let mut found = None;
        for (step, cluster) in scenario.steps.iter().enumerate() {
            node.apply(cluster)?;
            let view = scenario.view(step);
            found = comparison.later(node, view)?;
            if found.is_none() && step == last {
                found = comparison.first(node, view, connection)?;
            }
            if found.is_some() {
                break;
            }
            if comparison.living.is_empty() {
                comparison.keep(node, view, connection)?;
            }
        }
        node.kernel().forget_all()?;
        node.apply(&Cluster::default())?;
        Ok(found)
    }

    /// Both ends' verdicts about a connection's first packet.
    fn first(
        &mut self,
        node: &mut Node,
        view: View<'_>,
        connection: &Connection,
    ) -> Result<Option<Disagreement>> {
        let checked = node.check(connection)?;
        for side in Side::BOTH {
            let expected = view.judge(side, connection);
            let passes = node.judge(side, connection)?;
            self.count.first += usize::from(passes.is_some());
            self.count.allowed += usize::from(passes == Some(true));
            if let Some(actual) = differs(expected, passes, checked.side(side)) {
                return Ok(Some(Disagreement {
                    side,
                    connection: connection.clone(),
                    expected,
                    actual,
                }));
            }
        }
        Ok(None)
    }

    /// Opens a connection for good, if it may be: there and back through all that is on this node.
    fn keep(&mut self, node: &mut Node, view: View<'_>, connection: &Connection) -> Result<()> {
        let transport = matches!(connection.protocol, Protocol::Tcp | Protocol::Udp);
        if self.living.len() >= LIVING || !transport || !is_allowed(view, connection) {
            return Ok(());
        }
        self.opened = self.opened.wrapping_add(1) % 1000;
        let connection = Connection {
            source_port: FIRST_PORT + self.opened,
            ..connection.clone()
        };
        if self.is_living(&connection) {
            return Ok(());
        }
        let there = node.pass(&connection, &packet::first(&connection), true)?;
        anyhow::ensure!(
            there,
            "{connection} was let through when nothing was to be kept of it"
        );
        let back = node.pass(&connection, &packet::reply(&connection), false)?;
        anyhow::ensure!(back, "{connection} is not answered");
        self.living.push(Living {
            interfaces: Side::BOTH.map(|side| node.interface(side, &connection)),
            connection,
        });
        Ok(())
    }

    /// What becomes of the next packets of living connections, in either direction.
    fn later(&mut self, node: &mut Node, view: View<'_>) -> Result<Option<Disagreement>> {
        for living in std::mem::take(&mut self.living) {
            let connection = &living.connection;
            // An end that moved or went is another end.
            if living.interfaces != Side::BOTH.map(|side| node.interface(side, connection)) {
                node.kernel().forget(connection)?;
                continue;
            }
            let from_source = self.count.later.is_multiple_of(2);
            let frame = match (connection.protocol, from_source) {
                (Protocol::Tcp, true) => Tcp::established().frame(connection),
                (Protocol::Tcp, false) => Tcp::answer().frame(&connection.reversed()),
                (_, true) => packet::first(connection),
                (_, false) => packet::reply(connection),
            };
            let passes = node.pass(connection, &frame, from_source)?;
            self.count.later += 1;
            self.count.allowed += usize::from(passes);
            let expected = is_allowed(view, connection);
            if expected != passes {
                let side = Side::BOTH.into_iter().find(|side| {
                    let judgement = view.judge(*side, connection);
                    judgement.is_some_and(|j| j.verdict != Verdict::Allow) || expected
                });
                let side = side.unwrap_or(Side::Egress);
                return Ok(Some(Disagreement {
                    side,
                    connection: connection.clone(),
                    expected: view.judge(side, connection),
                    actual: format!("opened before; now it passes: {passes}"),
                }));
            }
            if passes {
                self.living.push(living);
            } else {
                node.kernel().forget(connection)?;
            }
        }
        Ok(None)
    }

    fn is_living(&self, connection: &Connection) -> bool {
        let ends = |c: &Connection| -> BTreeSet<(IpAddr, u16)> {
            [
                (c.source, c.source_port),
                (c.destination, c.destination_port),
            ]
            .into()
        };
        self.living.iter().any(|l| {
            l.connection.protocol == connection.protocol && ends(&l.connection) == ends(connection)
        })
    }
}

/// Whether all ends that are on the node let it through, and there is one.
fn is_allowed(view: View<'_>, connection: &Connection) -> bool {
    let judgements = Side::BOTH.map(|side| view.judge(side, connection));
    let mut known = judgements.into_iter().flatten().peekable();
    known.peek().is_some() && known.all(|j| j.verdict == Verdict::Allow)
}

/// In what the node differs, if it does: packet and `weft_check` each.
fn differs(
    expected: Option<Judgement>,
    passes: Option<bool>,
    checked: Option<Checked>,
) -> Option<String> {
    let wanted = expected.map(|j| j.verdict == Verdict::Allow);
    if passes != wanted {
        return Some(format!("the packet passes: {passes:?}"));
    }
    let told = expected.map(|Judgement { verdict, audited }| Checked {
        allowed: verdict == Verdict::Allow,
        layer7: verdict == Verdict::Layer7,
        audited,
    });
    (checked != told).then(|| format!("weft_check: {checked:?}"))
}
