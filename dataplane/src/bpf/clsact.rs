//! tc filters, for kernels without tcx: programs of an interface as filters of its clsact qdisc, which outlive the agent by themselves.
//!
//! Ours have a fixed priority and handle, so that a later agent puts its programs into the same place in one step.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;

use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcHook};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAttribute, TcFilterBpfOption, TcHandle, TcHeader, TcMessage, TcOption,
};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::abi::TcxHook;
use crate::interfaces::InterfaceIndex;
use crate::interfaces::snapshot::index;
use crate::netlink::Client;

const PRIORITY: u32 = 1;
const HANDLE: u32 = 0x5eed;
const KIND: &str = "clsact";

/// Filters of the network namespace it was made in.
pub(super) struct Clsact {
    client: Client<RouteNetlinkMessage>,
}

/// A BPF filter.
struct Filter {
    header: TcHeader,
    /// As libbpf names it: the program's name and its id, `name:[id]`.
    name: String,
    program_id: u32,
}

impl Filter {
    fn is_of(&self, program: &str) -> bool {
        self.name.split(":[").next() == Some(program)
    }
}

impl Clsact {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            client: Client::open(NETLINK_ROUTE)?,
        })
    }

    /// Attaches, or replaces what has our place, or does nothing if it is this program.
    pub(super) fn attach(
        &mut self,
        name: &str,
        program: BorrowedFd<'_>,
        program_id: u32,
        interface: InterfaceIndex,
        hook: TcxHook,
    ) -> io::Result<()> {
        let filters = self.filters(interface, hook)?;
        if filters
            .iter()
            .any(|f| f.is_of(name) && f.program_id == program_id)
        {
            return Ok(());
        }
        let number = i32::try_from(interface.get()).map_err(io::Error::other)?;
        let mut place = TcHook::new(program);
        place
            .ifindex(number)
            .attach_point(match hook {
                TcxHook::Ingress => TC_INGRESS,
                TcxHook::Egress => TC_EGRESS,
            })
            .priority(PRIORITY)
            .handle(HANDLE)
            .replace(true);
        place.create().map_err(io::Error::other)?;
        place.attach().map(drop).map_err(io::Error::other)
    }

    /// Takes the filters of these programs off, and the qdisc with the last filter. Returns how many there were.
    pub(super) fn detach(
        &mut self,
        programs: &[&str],
        interface: InterfaceIndex,
    ) -> io::Result<usize> {
        let (mut removed, mut others) = (0, 0);
        for hook in [TcxHook::Ingress, TcxHook::Egress] {
            for filter in self.filters(interface, hook)? {
                if programs.iter().any(|program| filter.is_of(program)) {
                    let message = TcMessage::from_parts(
                        filter.header,
                        vec![TcAttribute::Kind("bpf".to_owned())],
                    );
                    let query = RouteNetlinkMessage::DelTrafficFilter(message);
                    self.client.request(query, 0)?;
                    removed += 1;
                } else {
                    others += 1;
                }
            }
        }
        if removed > 0 && others == 0 {
            self.remove_qdisc(interface)?;
        }
        Ok(removed)
    }

    /// Interfaces with filters of these programs.
    pub(super) fn with(&mut self, programs: &[&str]) -> io::Result<BTreeSet<InterfaceIndex>> {
        let mut found = BTreeSet::new();
        for interface in self.interfaces()? {
            for hook in [TcxHook::Ingress, TcxHook::Egress] {
                let filters = self.filters(interface, hook)?;
                if filters.iter().any(|f| programs.iter().any(|p| f.is_of(p))) {
                    found.insert(interface);
                }
            }
        }
        Ok(found)
    }

    /// Interfaces with a clsact qdisc, ours or not.
    fn interfaces(&mut self) -> io::Result<BTreeSet<InterfaceIndex>> {
        let query = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let qdiscs = self.client.dump(&query)?;
        Ok(qdiscs
            .into_iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewQueueDiscipline(qdisc)
                    if qdisc
                        .attributes
                        .contains(&TcAttribute::Kind(KIND.to_owned())) =>
                {
                    index(u32::try_from(qdisc.header.index).ok()?)
                }
                _ => None,
            })
            .collect())
    }

    fn remove_qdisc(&mut self, interface: InterfaceIndex) -> io::Result<()> {
        let mut header = header(interface)?;
        header.handle = TcHandle::from(0xffff_0000);
        header.parent = TcHandle::CLSACT;
        let message = TcMessage::from_parts(header, vec![TcAttribute::Kind(KIND.to_owned())]);
        let query = RouteNetlinkMessage::DelQueueDiscipline(message);
        self.client.request(query, 0).map(drop)
    }

    /// All BPF filters of one direction, and anybody's. An interface that is gone, or without the qdisc, has none.
    fn filters(&mut self, interface: InterfaceIndex, hook: TcxHook) -> io::Result<Vec<Filter>> {
        let mut header = header(interface)?;
        header.parent = TcHandle {
            major: u16::MAX,
            minor: match hook {
                TcxHook::Ingress => TcHandle::MIN_INGRESS,
                TcxHook::Egress => TcHandle::MIN_EGRESS,
            },
        };
        let query = RouteNetlinkMessage::GetTrafficFilter(TcMessage::from_parts(header, vec![]));
        let answers = match self.client.dump(&query) {
            Err(e) if is_not_there(&e) => return Ok(Vec::new()),
            answers => answers?,
        };
        Ok(answers.into_iter().filter_map(filter).collect())
    }
}

fn header(interface: InterfaceIndex) -> io::Result<TcHeader> {
    Ok(TcHeader {
        index: i32::try_from(interface.get()).map_err(io::Error::other)?,
        ..TcHeader::default()
    })
}

/// A classifier without filters is listed too, with handle 0: it counts for nothing.
fn filter(answer: RouteNetlinkMessage) -> Option<Filter> {
    let RouteNetlinkMessage::NewTrafficFilter(message) = answer else {
        return None;
    };
    if message.header.handle == TcHandle::UNSPEC {
        return None;
    }
    let (mut name, mut program_id) = (String::new(), 0);
    for attribute in message.attributes {
        let TcAttribute::Options(options) = attribute else {
            continue;
        };
        for option in options {
            match option {
                TcOption::Bpf(TcFilterBpfOption::ProgName(text)) => name = text,
                TcOption::Bpf(TcFilterBpfOption::ProgId(id)) => program_id = id,
                _ => {}
            }
        }
    }
    Some(Filter {
        header: message.header,
        name,
        program_id,
    })
}

fn is_not_there(error: &io::Error) -> bool {
    const ENODEV: i32 = 19;
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::InvalidInput
    ) || error.raw_os_error() == Some(ENODEV)
}
