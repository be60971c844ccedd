//! Whether anybody has a say about packets through this node: rules of nftables, or of iptables in either of its kinds.

mod message;
mod rule;

use std::collections::BTreeMap;
use std::fs;
use std::io;

use netlink_sys::protocols::NETLINK_NETFILTER;
use rustix::io::Errno;

use crate::netlink::Client;
use message::{Message, Query, number};
use rule::ChainName;

/// Tables of iptables' older kind, which the kernel lists once they are used.
const LEGACY: [&str; 2] = [
    "/proc/thread-self/net/ip_tables_names",
    "/proc/thread-self/net/ip6_tables_names",
];
/// `NFTA_GEN_ID`.
const GENERATION: u16 = 1;

/// Somebody who has a say, in words.
pub(super) type Say = Option<String>;

/// Reads this network namespace's rules, anew when they have changed.
#[derive(Default)]
pub(super) struct Netfilter {
    /// None yet: this kernel has not loaded netfilter's part of netlink so far, and so no rules.
    client: Option<Client<Message>>,
    read: Option<(u32, Say)>,
}

impl Netfilter {
    /// Who has a say now.
    pub(super) fn say(&mut self) -> io::Result<Say> {
        if let Some(table) = LEGACY.into_iter().find_map(legacy_table) {
            return Ok(Some(format!("iptables-legacy has table {table}")));
        }
        let client = match &mut self.client {
            Some(client) => client,
            none => match Client::open(NETLINK_NETFILTER) {
                Err(e) if e.raw_os_error() == Some(Errno::PROTONOSUPPORT.raw_os_error()) => {
                    return Ok(None);
                }
                client => none.insert(client?),
            },
        };
        let Some(generation) = generation(client)? else {
            return Ok(None);
        };
        if let Some((of, say)) = &self.read
            && *of == generation
        {
            return Ok(say.clone());
        }
        let say = read_rules(client)?;
        self.read = Some((generation, say.clone()));
        Ok(say)
    }
}

/// Changes with the rules; `None`: this kernel has no nftables.
fn generation(client: &mut Client<Message>) -> io::Result<Option<u32>> {
    match client.request(Message::new(Query::Generation), 0) {
        Ok(answer) => {
            let generation = answer.as_ref().and_then(|a| a.attribute(GENERATION));
            Ok(Some(generation.and_then(number).unwrap_or_default()))
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(e) => Err(e),
    }
}

fn read_rules(client: &mut Client<Message>) -> io::Result<Say> {
    let chains = client.dump(&Message::new(Query::Chains))?;
    let base = chains.iter().filter_map(rule::base_chain);
    let base: BTreeMap<ChainName, bool> = base.map(|b| (b.name, b.accepts)).collect();
    if base.is_empty() {
        return Ok(None);
    }
    if let Some((name, _)) = base.iter().find(|(_, accepts)| !**accepts) {
        return Ok(Some(format!("{} drops what no rule accepts", words(name))));
    }
    let rules = client.dump(&Message::new(Query::Rules))?;
    let said = rules.iter().find_map(|rule| {
        let name = ChainName::of_rule(rule)?;
        (base.contains_key(&name) && !rule::is_harmless(rule)).then_some(name)
    });
    Ok(said.map(|name| format!("{} has rules", words(&name))))
}

fn words(name: &ChainName) -> String {
    format!("chain {} of table {} in netfilter", name.chain, name.table)
}

fn legacy_table(list: &str) -> Option<String> {
    let names = fs::read_to_string(list).ok()?;
    names.lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests;
