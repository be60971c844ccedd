//! Keeps `outsiders`: the network namespaces of local pods that are out of the mesh.
//!
//! Nothing is at such a pod's interface that could hand its connections over to Envoy. By this table the socket hooks know it, and
//! balance its connections to services of layer 7 themselves.

mod book;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use book::NetnsCookie;

use crate::bpf;
use crate::interfaces::{
    Follower, InterfaceIndex, Interfaces, LocalInterfaces, OtherEnds, PodPrograms, WantedPods,
    WantedReceiver, follow,
};
use crate::netns;
use crate::tables::Table;
use book::Book;

/// The task that fills the table.
pub struct Outsiders {
    ends: OtherEnds,
    book: Book,
}

impl Outsiders {
    /// For the network namespace of the caller. Takes over what an earlier agent has written.
    ///
    /// # Errors
    /// When a netlink socket is refused, or the table cannot be read.
    pub fn new(table: Box<dyn Table<NetnsCookie, u32>>) -> io::Result<Self> {
        Ok(Self {
            ends: OtherEnds::new()?,
            book: Book::new(table).map_err(io::Error::other)?,
        })
    }

    /// Follows the pods that are `out` until `drain` is cancelled; what is written stays. While there are none, nothing is searched.
    ///
    /// # Errors
    /// When interfaces can no longer be watched, or a look panicked.
    pub async fn run(
        mut self,
        mut out: WantedReceiver,
        drain: CancellationToken,
    ) -> io::Result<()> {
        while !drain.is_cancelled() {
            let none = is_empty(&out.borrow_and_update());
            let round = drain.child_token();
            let end = async {
                turn(out.clone(), none, &drain).await;
                round.cancel();
                Ok(())
            };
            let (pods, token) = (out.clone(), round.clone());
            (self, ()) = if none {
                tokio::try_join!(self.rest(pods, token), end)?
            } else {
                tokio::try_join!(self.search(pods, token), end)?
            };
        }
        Ok(())
    }

    async fn search(self, out: WantedReceiver, round: CancellationToken) -> io::Result<Self> {
        let (search, outlook) = Interfaces::new(out.clone(), Box::new(NoPrograms))?;
        let followed = follow(self, outlook.interfaces, out, round.clone());
        let (this, ()) = tokio::try_join!(followed, search.run(round))?;
        Ok(this)
    }

    /// Nobody is out.
    async fn rest(self, out: WantedReceiver, round: CancellationToken) -> io::Result<Self> {
        let (_nothing, interfaces) = watch::channel(LocalInterfaces::default());
        follow(self, interfaces, out, round).await
    }

    fn try_look(&mut self, local: &LocalInterfaces, out: &WantedPods) -> io::Result<bool> {
        // The search may not have heard yet of who is in the mesh again.
        let pods = local.pods.iter();
        let wanted: BTreeSet<InterfaceIndex> = pods
            .filter(|(address, _)| out.addresses.contains_key(address))
            .map(|(_, interface)| *interface)
            .collect();
        let mut found = BTreeMap::new();
        for (interface, namespace) in self.ends.open(&wanted)? {
            let cookie = netns::within(&namespace, bpf::netns_cookie)?;
            found.insert(interface, NetnsCookie(cookie));
        }
        let settled = local.settled || (out.complete && is_empty(out));
        self.book
            .keep(&wanted, found, settled)
            .map_err(io::Error::other)
    }
}

impl Follower for Outsiders {
    fn look(&mut self, local: &LocalInterfaces, out: &WantedPods) -> bool {
        match self.try_look(local, out) {
            Ok(complete) => complete,
            Err(e) => {
                tracing::warn!("services of layer 7 may not answer pods out of the mesh: {e}");
                false
            }
        }
    }
}

/// Until somebody goes out where there was `none`, or all are in again; or until the end.
async fn turn(mut out: WantedReceiver, none: bool, drain: &CancellationToken) {
    let turned = async {
        let ended = out.wait_for(|pods| is_empty(pods) != none).await.is_err();
        // The engine has, and with it the agent.
        if ended {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = drain.cancelled() => {}
        () = turned => {}
    }
}

fn is_empty(pods: &WantedPods) -> bool {
    pods.addresses.is_empty()
}

/// For interfaces that are only to be found.
struct NoPrograms;

impl PodPrograms for NoPrograms {
    fn attach(&mut self, _: InterfaceIndex) -> io::Result<()> {
        Ok(())
    }

    fn detach(&mut self, _: InterfaceIndex) -> io::Result<()> {
        Ok(())
    }

    fn attached(&mut self) -> io::Result<BTreeSet<InterfaceIndex>> {
        Ok(BTreeSet::new())
    }

    fn hook(&self) -> &'static str {
        "none"
    }
}
