//! Connections in `closing_flows` are closed at both of their ends, wherever those are on the node, and no other socket is.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use weft_dataplane::bpf::{self, BpfTable, Loaded, MapSizes, PinDir};
use weft_dataplane::close::{ClosingFlow, Destroyer, FlowCloser};
use weft_dataplane::interfaces::{InterfaceIndex, LocalInterfaces};
use weft_dataplane::tables::Table;
use weft_lab::netns::Netns;
use weft_lab::{Lab, PodSpec};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Patience with a busy machine.
const WITHIN: Duration = Duration::from_secs(10);
/// What is not to happen has not happened after this time.
const QUIET: Duration = Duration::from_millis(300);
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A closer in the network namespace of node n1.
struct Running {
    flows: BpfTable<ClosingFlow, u32>,
    called: Arc<Notify>,
    drain: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

fn flows(loaded: &Loaded) -> Result<BpfTable<ClosingFlow, u32>> {
    Ok(BpfTable::new(
        "closing_flows",
        loaded.map("closing_flows")?,
    )?)
}

fn closers() -> [fn(&mut Loaded) -> Result<FlowCloser>; 2] {
    [
        |loaded| Ok(loaded.flow_closer()?),
        |loaded| {
            Ok(FlowCloser::new(
                Box::new(flows(loaded)?),
                Destroyer::Netlink,
            )?)
        },
    ]
}

impl Running {
    fn start(lab: &Lab, make: fn(&mut Loaded) -> Result<FlowCloser>) -> Result<Self> {
        let node = lab.node("n1")?;
        let mut loaded = bpf::load(&PinDir::create(node.bpffs())?, &MapSizes::default())?;
        let flows = flows(&loaded)?;
        let local = local(lab, node.netns())?;
        let (called, drain) = (Arc::new(Notify::new()), CancellationToken::new());
        let thread = std::thread::spawn({
            let (netns, called, drain) = (node.netns().clone(), called.clone(), drain.clone());
            move || {
                let run = || -> Result {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()?;
                    let closer = make(&mut loaded)?;
                    let (_keep, interfaces) = watch::channel(local);
                    Ok(runtime.block_on(closer.run(interfaces, called, drain))?)
                };
                netns.run(run).expect("the namespace").expect("the closer");
            }
        });
        Ok(Self {
            flows,
            called,
            drain,
            thread: Some(thread),
        })
    }

    /// As the kernel's sweep does it.
    fn close(&mut self, protocol: u8, one: SocketAddr, other: SocketAddr) -> Result {
        let order = |end: &SocketAddr| (mapped(end.ip()), end.port());
        let mut ends = [one, other];
        ends.sort_by_key(order);
        self.flows.write(&[(ClosingFlow { ends, protocol }, 36)])?;
        self.called.notify_one();
        let end = std::time::Instant::now() + WITHIN;
        while !self.flows.entries()?.is_empty() {
            if std::time::Instant::now() > end {
                return Err("the flow was not taken out".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.drain.cancel();
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(!matches!(ended, Some(Err(_))), "the closer panicked");
        }
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn local(lab: &Lab, node: &Netns) -> Result<LocalInterfaces> {
    let mut pods = BTreeMap::new();
    for pod in lab.pods() {
        let index: u32 = node.run(|| index_of(pod.host_link()))??;
        let index = NonZeroU32::new(index).ok_or("no index")?;
        pods.extend(pod.addresses().both().map(|a| (a, InterfaceIndex(index))));
    }
    Ok(LocalInterfaces {
        pods,
        host: lab.node("n1")?.addresses().both().into(),
        settled: true,
    })
}

fn index_of(interface: &str) -> Result<u32> {
    let output = std::process::Command::new("ip")
        .args(["-o", "link", "show", "dev", interface])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split(':').next().unwrap_or_default().parse()?)
}

/// A TCP connection with both of its sockets.
struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    fn open(from: &Netns, listener: &TcpListener, at: SocketAddr) -> Result<Self> {
        let client = from.run(|| TcpStream::connect(at))??;
        let (server, _) = listener.accept()?;
        Ok(Self { client, server })
    }

    fn ends(&self) -> Result<(SocketAddr, SocketAddr)> {
        Ok((self.client.local_addr()?, self.client.peer_addr()?))
    }

    fn is_broken(&self) -> Result<[bool; 2]> {
        Ok([broken(&self.client)?, broken(&self.server)?])
    }
}

/// Whether reading says that the connection was broken, not that there is nothing to read.
fn broken(mut stream: &TcpStream) -> Result<bool> {
    stream.set_read_timeout(Some(QUIET))?;
    Ok(is_broken(stream.read(&mut [0; 8]))?)
}

fn is_broken(read: io::Result<usize>) -> io::Result<bool> {
    match read {
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
            ) =>
        {
            Ok(true)
        }
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
        Err(e) => Err(e),
        Ok(_) => Err(io::Error::other("an orderly end")),
    }
}

fn two_pods() -> Result<Lab> {
    Ok(Lab::builder()
        .node("n1")
        .pod(PodSpec::new("a", "n1"))
        .pod(PodSpec::new("b", "n1"))
        .build()?)
}

#[test]
fn tcp_breaks_at_both_ends_and_no_other_connection_does() -> Result {
    for make in closers() {
        let lab = two_pods()?;
        let mut closer = Running::start(&lab, make)?;
        let (a, b) = (lab.pod("a")?, lab.pod("b")?);
        let node = lab.node("n1")?;
        // One socket for both families, as most servers have it: its IPv4 connections are IPv6 sockets.
        let listener = b.netns().run(|| TcpListener::bind("[::]:8080"))??;
        for at in [b.socket_v4(8080), b.socket_v6(8080)] {
            let open = |from: &Netns| Connection::open(from, &listener, at);
            let (doomed, spared) = (open(a.netns())?, open(a.netns())?);
            let (of_node, spared_of_node) = (open(node.netns())?, open(node.netns())?);
            let mut gone = Vec::new();
            for connection in [&doomed, &of_node] {
                let (local, remote) = connection.ends()?;
                gone.push((local, remote));
                closer.close(TCP, local, remote)?;
                assert_eq!(connection.is_broken()?, [true, true], "{local} {remote}");
            }
            for connection in [&spared, &spared_of_node] {
                assert_eq!(connection.is_broken()?, [false, false]);
            }
            // Named again when they are gone: the listener, which has their place now, stays.
            for (local, remote) in gone {
                closer.close(TCP, local, remote)?;
            }
            open(a.netns())?;
        }
    }
    Ok(())
}

#[test]
fn connected_udp_breaks_and_a_server_of_all_does_not() -> Result {
    for make in closers() {
        let lab = two_pods()?;
        let mut closer = Running::start(&lab, make)?;
        let (a, b) = (lab.pod("a")?, lab.pod("b")?);
        for (any, at) in [
            ("0.0.0.0:0", b.socket_v4(5353)),
            ("[::]:0", b.socket_v6(5353)),
        ] {
            let server = b.netns().run(|| UdpSocket::bind(at))??;
            let client = || -> Result<UdpSocket> {
                let socket = a.netns().run(|| UdpSocket::bind(any))??;
                a.netns().run(|| socket.connect(at))??;
                Ok(socket)
            };
            let (doomed, spared) = (client()?, client()?);
            closer.close(UDP, doomed.local_addr()?, at)?;
            for (socket, expected) in [(&doomed, true), (&spared, false), (&server, false)] {
                socket.set_read_timeout(Some(QUIET))?;
                assert_eq!(is_broken(socket.recv(&mut [0; 8]))?, expected, "{socket:?}");
            }
            spared.send(b"still here")?;
            assert_eq!(server.recv(&mut [0; 32])?, 10);
        }
    }
    Ok(())
}

#[test]
fn flows_without_sockets_here_are_taken_out() -> Result {
    for make in closers() {
        let lab = two_pods()?;
        let mut closer = Running::start(&lab, make)?;
        let nobody: SocketAddr = "192.0.2.1:1".parse()?;
        closer.close(TCP, nobody, lab.pod("a")?.socket_v4(9))?;
        closer.close(1, nobody, lab.pod("a")?.socket_v4(9))?;
        closer.close(UDP, nobody, "192.0.2.2:2".parse()?)?;
    }
    Ok(())
}
