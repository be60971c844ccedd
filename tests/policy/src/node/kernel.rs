//! The loaded programs, run by `BPF_PROG_TEST_RUN`.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use libbpf_rs::{MapCore, MapHandle, ProgramInput};
use weft_dataplane::bpf::{self, Loaded, MapSizes, PinDir};
use weft_dataplane::tables::policy::PolicyTables;
use weft_lab::bpffs::BpfFs;

use super::check::{self, BothChecked};
use crate::connection::{Connection, Protocol};
use crate::evaluate::Side;
use crate::packet::{VLAN, protocol_number};

/// `TC_ACT_UNSPEC`: on to the next program.
const PASS: i32 = -1;
/// `TC_ACT_SHOT`.
const DROP: i32 = 2;

/// Where `struct __sk_buff` has its interface.
const SKB_SIZE: usize = 192;
const SKB_IFINDEX: usize = 40;

/// Size of an Ethernet header.
const LINK: usize = 14;

/// Identifier of echo requests, as [`crate::packet::first`] has it.
const ECHO: u16 = 7;

static LOADS: AtomicU32 = AtomicU32::new(0);

/// Programs and maps that nobody else has.
pub struct Kernel {
    loaded: Loaded,
    pending: MapHandle,
    tracked: MapHandle,
    fragments: MapHandle,
}

impl Kernel {
    /// Loads all programs with new maps.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn load() -> Result<Self> {
        let number = LOADS.fetch_add(1, Ordering::Relaxed);
        let bpffs = BpfFs::mount(&format!("weft-policy-{}-{number}", std::process::id()))?;
        let sizes = [("ct", 4096), ("ct_pending", 4096), ("fragments", 64)];
        let sizes: MapSizes = sizes.map(|(name, size)| (name.to_owned(), size)).into();
        // File descriptors hold the maps, which need their pins no more.
        let loaded = bpf::load(&PinDir::create(&bpffs.path().join("pins"))?, &sizes)?;
        Ok(Self {
            pending: loaded.map("ct_pending")?,
            tracked: loaded.map("ct")?,
            fragments: loaded.map("fragments")?,
            loaded,
        })
    }

    /// What the agent's policy engine writes.
    ///
    /// # Errors
    /// When a map is missing.
    pub fn policy_tables(&self) -> Result<PolicyTables> {
        Ok(self.loaded.policy_tables()?)
    }

    /// Whether a frame passes: at egress as it leaves the pod behind the interface, at ingress as it is on its way to it.
    ///
    /// # Errors
    /// When the program cannot be run, or says something else than pass or drop.
    pub fn run(&mut self, side: Side, interface: u32, frame: &[u8]) -> Result<bool> {
        let name = match side {
            Side::Egress => "weft_from_pod",
            Side::Ingress => "weft_to_pod",
        };
        let mut skb = [0u8; SKB_SIZE];
        skb[SKB_IFINDEX..SKB_IFINDEX + 4].copy_from_slice(&interface.to_ne_bytes());
        let frame = acceptable(frame);
        let input = ProgramInput {
            context_in: Some(&mut skb),
            data_in: Some(&frame),
            ..ProgramInput::default()
        };
        let program = self.loaded.program(name).context("no such program")?;
        let output = program.test_run(input).context("BPF_PROG_TEST_RUN")?;
        let verdict = output.return_value as i32;
        ensure!(matches!(verdict, PASS | DROP), "{name} says {verdict}");
        Ok(verdict == PASS)
    }

    /// Runs `weft_check`, which finds the question in the packet and leaves its answer there.
    ///
    /// # Errors
    /// When the program cannot be run, or fails.
    pub fn check(&mut self, connection: &Connection) -> Result<BothChecked> {
        let question = check::question(connection);
        let mut answer = question;
        let input = ProgramInput {
            data_in: Some(&question),
            data_out: Some(&mut answer),
            ..ProgramInput::default()
        };
        let program = self.loaded.program("weft_check").context("no weft_check")?;
        let output = program.test_run(input).context("BPF_PROG_TEST_RUN")?;
        ensure!(
            output.return_value == 0,
            "weft_check says {}",
            output.return_value as i32
        );
        Ok(check::answer(&answer))
    }

    /// Forgets a connection.
    ///
    /// # Errors
    /// When a map cannot be written.
    pub fn forget(&self, connection: &Connection) -> Result<()> {
        let key = flow_key(connection);
        for map in [&self.pending, &self.tracked] {
            match map.delete(&key) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(error)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Forgets all connections.
    ///
    /// # Errors
    /// When a map cannot be written.
    pub fn forget_all(&self) -> Result<()> {
        for map in [&self.pending, &self.tracked, &self.fragments] {
            let keys: Vec<Vec<u8>> = map.keys().collect();
            for key in keys {
                map.delete(&key)?;
            }
        }
        Ok(())
    }
}

/// Newer kernels take no frame for a test that promises IP and is shorter than an IP header, though wires do. Behind a VLAN tag it means
/// the same.
fn acceptable(frame: &[u8]) -> Cow<'_, [u8]> {
    let header = match frame {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, ..] => 20,
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, ..] => 40,
        _ => 0,
    };
    if frame.len() >= LINK + header {
        return Cow::Borrowed(frame);
    }
    let tag = [VLAN.to_be_bytes(), 5u16.to_be_bytes()];
    let (addresses, rest) = frame.split_at(LINK - 2);
    Cow::Owned([addresses, tag.as_flattened(), rest].concat())
}

/// `struct flow_key` of bpf/include/abi/conntrack.h.
fn flow_key(connection: &Connection) -> [u8; 40] {
    let port = |port: u16| match connection.protocol {
        Protocol::Icmp => ECHO.to_be_bytes(),
        _ => port.to_be_bytes(),
    };
    let mut ends = [
        (address(connection.source), port(connection.source_port)),
        (
            address(connection.destination),
            port(connection.destination_port),
        ),
    ];
    ends.sort_unstable();
    let mut key = [0; 40];
    key[..16].copy_from_slice(&ends[0].0);
    key[16..32].copy_from_slice(&ends[1].0);
    key[32..34].copy_from_slice(&ends[0].1);
    key[34..36].copy_from_slice(&ends[1].1);
    key[36] = protocol_number(connection);
    key
}

/// IPv4 is v4-mapped.
pub(super) fn address(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
