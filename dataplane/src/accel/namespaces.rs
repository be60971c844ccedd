//! Keeps `accel_namespaces`: in which network namespaces connections within one pod are accelerated.

use std::collections::BTreeSet;
use std::io;

use crate::tables::Table;

use super::AcceleratedPod;

/// Values of the table mean nothing more.
const WANTED: u32 = 1;

/// The table and what is in it.
pub(super) struct Namespaces {
    table: Box<dyn Table<u32, u32>>,
    known: BTreeSet<u32>,
}

impl Namespaces {
    /// Takes over what an earlier agent has written.
    pub(super) fn new(table: Box<dyn Table<u32, u32>>) -> io::Result<Self> {
        let entries = table.entries().map_err(io::Error::other)?;
        let known = entries.into_iter().map(|(netns, _)| netns).collect();
        Ok(Self { table, known })
    }

    /// Those of these pods whose owners want acceleration, and no others.
    pub(super) fn write<'a>(
        &mut self,
        pods: impl Iterator<Item = &'a AcceleratedPod> + Clone,
    ) -> io::Result<()> {
        let off: BTreeSet<u32> = pods.clone().filter(|p| p.off).map(|p| p.netns).collect();
        let all: BTreeSet<u32> = pods.map(|pod| pod.netns).collect();
        let wanted: BTreeSet<u32> = all.difference(&off).copied().collect();
        let gone: Vec<u32> = self.known.difference(&wanted).copied().collect();
        self.table.delete(&gone).map_err(io::Error::other)?;
        self.known.retain(|netns| wanted.contains(netns));
        let fresh = wanted.difference(&self.known);
        let fresh: Vec<_> = fresh.map(|netns| (*netns, WANTED)).collect();
        self.table.write(&fresh).map_err(io::Error::other)?;
        self.known = wanted;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::memory::MemoryTable;

    fn pod(netns: u32, off: bool) -> AcceleratedPod {
        AcceleratedPod {
            netns,
            off,
            off_from_envoy: false,
        }
    }

    #[test]
    fn holds_who_wants_it_and_nobody_else() {
        let table = MemoryTable::new("accel_namespaces", 8);
        let mut namespaces = Namespaces::new(Box::new(table.clone())).unwrap();
        // The second pod has two interfaces; the owner of the third has opted out, whichever interface says so.
        let pods = [
            pod(1, false),
            pod(2, false),
            pod(2, false),
            pod(3, false),
            pod(3, true),
        ];
        namespaces.write(pods.iter()).unwrap();
        assert_eq!(table.entries().unwrap(), [(1, WANTED), (2, WANTED)]);
        drop(namespaces);

        let mut later = Namespaces::new(Box::new(table.clone())).unwrap();
        later.write([pod(2, true), pod(4, false)].iter()).unwrap();
        assert_eq!(table.entries().unwrap(), [(4, WANTED)]);
        later.write(std::iter::empty()).unwrap();
        assert!(table.entries().unwrap().is_empty());
    }
}
