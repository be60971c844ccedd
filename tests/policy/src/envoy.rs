//! The node's Envoy with what the control plane makes of policies, and requests to it.
//!
//! Only what carries packets to it and requests on is left out: every pod and port has a listener of its own, in a network namespace where
//! all addresses are local, and what the rules let through is answered with 200.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use prost::Message;
use tokio::net::TcpSocket;
use weft_control::ads::Store;
use weft_control::read::Reading;
use weft_control::source::Event;
use weft_control::{Engine, Settings};
use weft_proto::convert::unpack;
use weft_proto::envoy::envoy::config::bootstrap::v3::{Bootstrap, bootstrap::StaticResources};
use weft_proto::envoy::envoy::config::core::v3::{
    Address, SocketAddress, address, socket_address::PortSpecifier,
};
use weft_proto::envoy::envoy::config::listener::v3::{FilterChain, Listener, filter};
use weft_proto::envoy::envoy::config::route::v3::{
    DirectResponseAction, RouteConfiguration, route,
};
use weft_proto::envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use weft_proto::envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use weft_proto::resource::ResourceType;

use crate::evaluate::Request;
use crate::object::Cluster;

const START_WITHIN: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Where a node's Envoy stands in for pods, by their addresses: the filter and the rules of each.
pub type Guards = BTreeMap<IpAddr, (FilterChain, RouteConfiguration)>;

/// What the control plane has for the Envoys of all nodes.
///
/// # Errors
/// When an object is not read.
pub fn guards(cluster: &Cluster) -> Result<Guards> {
    let mut engine = Engine::new(Store::default().into(), Settings::default());
    let mut events = vec![Event::Synced];
    for document in cluster.documents() {
        let mut reading = Reading::default();
        reading.add(serde_json::to_value(&document)?, &"test".into());
        let objects = reading.items.into_iter().filter_map(|item| item.object);
        events.extend(objects.map(Event::Applied));
    }
    engine.publish(events);
    engine.envoys().read(|snapshot| {
        let routes = snapshot.table(ResourceType::Route);
        let mut guards = Guards::new();
        for (_, entry) in snapshot.table(ResourceType::Listener).iter() {
            let listener: Listener = unpack(&entry.any(), "")?;
            for chain in listener.filter_chains {
                let matching = chain.filter_chain_match.as_ref();
                let range = matching.and_then(|m| m.prefix_ranges.first());
                let address = range
                    .context("a chain for everybody")?
                    .address_prefix
                    .parse()?;
                let name = rds_name(&manager(&chain)?)?;
                let (_, entry) = routes.get(&name).context("rules that are not there")?;
                guards.insert(address, (chain, unpack(&entry.any(), "")?));
            }
        }
        Ok(guards)
    })
}

fn manager(chain: &FilterChain) -> Result<HttpConnectionManager> {
    let config = chain.filters.first().and_then(|f| f.config_type.as_ref());
    match config {
        Some(filter::ConfigType::TypedConfig(any)) => Ok(unpack(any, "")?),
        other => bail!("not one filter: {other:?}"),
    }
}

fn rds_name(manager: &HttpConnectionManager) -> Result<String> {
    match &manager.route_specifier {
        Some(RouteSpecifier::Rds(rds)) => Ok(rds.route_config_name.clone()),
        other => bail!("no RDS: {other:?}"),
    }
}

/// A running Envoy; ends when it is dropped.
#[derive(Debug)]
pub struct Envoy {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The Envoy that the tests run: `WEFT_TEST_ENVOY`, else the one that scripts/install-envoy has put there.
fn binary() -> Result<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/envoy/envoy");
    let path = std::env::var_os("WEFT_TEST_ENVOY").map_or(installed, PathBuf::from);
    ensure!(
        path.exists(),
        "no Envoy at {}: run scripts/install-envoy, or name one in WEFT_TEST_ENVOY",
        path.display()
    );
    Ok(path)
}

impl Envoy {
    /// Starts one in the network namespace of the caller, that listens for these pods on these ports.
    ///
    /// # Errors
    /// When it does not serve in time, with what it says.
    pub fn start(guards: &Guards, ports: &[u16]) -> Result<Self> {
        let sockets = guards
            .keys()
            .flat_map(|ip| ports.iter().map(|port| SocketAddr::new(*ip, *port)));
        let listeners = sockets
            .clone()
            .map(|socket| listener(socket, &guards[&socket.ip()]))
            .collect::<Result<_>>()?;
        let bootstrap = Bootstrap {
            static_resources: Some(StaticResources {
                listeners,
                ..Default::default()
            }),
            ..Default::default()
        };
        let folder = tempfile::tempdir()?;
        let (config, log) = (folder.path().join("config.pb"), folder.path().join("log"));
        std::fs::write(&config, bootstrap.encode_to_vec())?;
        let child = Command::new(binary()?)
            .arg("--config-path")
            .arg(&config)
            .args([
                "--disable-hot-restart",
                "--concurrency",
                "1",
                "--log-level",
                "warning",
            ])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .spawn()?;
        let mut envoy = Self {
            child,
            _folder: folder,
        };
        let begun = Instant::now();
        for socket in sockets {
            while std::net::TcpStream::connect(socket).is_err() {
                let ended = envoy.child.try_wait()?.is_some() || begun.elapsed() > START_WITHIN;
                ensure!(!ended, "{}", std::fs::read_to_string(&log)?);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(envoy)
    }
}

fn listener(
    socket: SocketAddr,
    (chain, rules): &(FilterChain, RouteConfiguration),
) -> Result<Listener> {
    let mut manager = manager(chain)?;
    let mut rules = rules.clone();
    for host in &mut rules.virtual_hosts {
        for route in &mut host.routes {
            route.action = Some(route::Action::DirectResponse(DirectResponseAction {
                status: 200,
                ..Default::default()
            }));
        }
    }
    manager.route_specifier = Some(RouteSpecifier::RouteConfig(rules));
    let carries_on = "envoy.filters.http.original_src";
    manager
        .http_filters
        .retain(|filter| filter.name != carries_on);
    manager.access_log.clear();
    let mut chain = FilterChain {
        filter_chain_match: None,
        ..chain.clone()
    };
    if let Some(filter) = chain.filters.first_mut() {
        filter.config_type = Some(filter::ConfigType::TypedConfig(pack(&manager)));
    }
    Ok(Listener {
        name: socket.to_string(),
        address: Some(Address {
            address: Some(address::Address::SocketAddress(SocketAddress {
                address: socket.ip().to_string(),
                port_specifier: Some(PortSpecifier::PortValue(socket.port().into())),
                ..Default::default()
            })),
        }),
        filter_chains: vec![chain],
        ..Default::default()
    })
}

fn pack<T: Message + prost::Name>(message: &T) -> weft_proto::envoy::google::protobuf::Any {
    weft_proto::envoy::google::protobuf::Any {
        type_url: T::type_url(),
        value: message.encode_to_vec(),
    }
}

/// The status of a request from this address.
///
/// # Errors
/// When none is answered.
pub fn ask(from: IpAddr, to: SocketAddr, request: &Request) -> Result<u16> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let connecting = async {
        let socket = match from {
            IpAddr::V4(_) => TcpSocket::new_v4()?,
            IpAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(to).await?.into_std()
    };
    let mut stream = runtime
        .block_on(connecting)
        .with_context(|| format!("{from} to {to}"))?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut text = format!(
        "{} {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: 0\r\n",
        request.method, request.path, request.host
    );
    for (name, value) in &request.headers {
        text += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{text}\r\n").as_bytes())?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).context("no status")?;
    Ok(status.parse()?)
}
