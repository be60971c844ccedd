//! The whole agent, with the real control plane and tables in memory for a kernel.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use weft_control::{Config, ControlPlane, SourceConfig};
use weft_dataplane::accel::PodInterface;
use weft_dataplane::admin::{self, RunDir};
use weft_dataplane::agent::{self, AgentConfig, AgentError, ControlTarget};
use weft_dataplane::bpf::{Accelerated, Attachment, BpfError};
use weft_dataplane::check::Judged;
use weft_dataplane::close::{Destroyer, FlowCloser};
use weft_dataplane::conntrack::Timeouts;
use weft_dataplane::datapath::{CounterSource, Datapath, Observation};
use weft_dataplane::engine::Closer;
use weft_dataplane::flow::memory::MemoryKernel;
use weft_dataplane::interfaces::{InterfaceIndex, PodPrograms};
use weft_dataplane::limits::Tender;
use weft_dataplane::outsiders::NetnsCookie;
use weft_dataplane::proxy::ProxyState;
use weft_dataplane::routing::PodLink;
use weft_dataplane::tables::memory::{self, MemoryTable};
use weft_dataplane::tables::policy::PolicyTables;
use weft_dataplane::tables::{
    AllocatedIds, BackendEntry, BackendId, BackendLoad, ServiceEntry, ServiceId, ServiceKey, Slot,
    SlotKey, Table, Tables,
};
use weft_dataplane::uplinks::UplinkPrograms;
use weft_dataplane::xds::InProcess;
use weft_proto::model::Protocol;
use weft_proto::wire::admin::v1 as wire;

/// A kernel that outlives its agents.
#[derive(Clone)]
struct Kernel {
    services: MemoryTable<ServiceKey, ServiceEntry>,
    slots: MemoryTable<SlotKey, Slot>,
    backends: MemoryTable<BackendId, BackendEntry>,
    loads: MemoryTable<BackendId, BackendLoad>,
    cursors: MemoryTable<ServiceId, u64>,
    ids: MemoryTable<u32, AllocatedIds>,
    closed: Arc<Mutex<Vec<BackendId>>>,
    closer_panics: Arc<AtomicBool>,
}

impl Kernel {
    fn new() -> Self {
        Self {
            services: MemoryTable::new("services", 1_000),
            slots: MemoryTable::new("slots", 1_000),
            backends: MemoryTable::new("backends", 1_000),
            loads: MemoryTable::new("backend_loads", 1_000),
            cursors: MemoryTable::new("cursors", 1_000),
            ids: MemoryTable::new("ids", 1),
            closed: Arc::default(),
            closer_panics: Arc::default(),
        }
    }

    /// Where connections to 10.96.0.1:80 go; `None`: nowhere in particular.
    fn landing(&self) -> Option<Vec<SocketAddr>> {
        let key = ServiceKey {
            address: [10, 96, 0, 1].into(),
            port: 80,
            protocol: Protocol::Tcp,
            side: weft_proto::model::Side::Inside,
        };
        let entry = self.services.with(|m| m.get(&key).copied())?;
        let at = |index| SlotKey {
            service: entry.id,
            generation: entry.generation,
            index,
        };
        let ids = (0..entry.slots).map(|i| self.slots.with(|m| m[&at(i)].backend));
        let mut found: Vec<_> = ids
            .map(|id| self.backends.with(|m| m[&id].address))
            .collect();
        found.sort_unstable();
        Some(found)
    }

    async fn until_landing(&self, expected: Option<&[&str]>) {
        let expected: Option<Vec<SocketAddr>> =
            expected.map(|list| list.iter().map(|a| a.parse().expect("address")).collect());
        for _ in 0..1_000 {
            if self.landing() == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(self.landing(), expected);
    }
}

impl Closer for Kernel {
    fn close(&mut self, backends: Vec<BackendId>) {
        assert!(
            !self.closer_panics.load(Ordering::Relaxed),
            "as the test wants it"
        );
        self.closed
            .lock()
            .expect("nobody panics here")
            .extend(backends);
    }
}

impl Tender for Kernel {
    fn tend(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl CounterSource for Kernel {
    fn read(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The pods of these tests exist on paper only.
struct NoInterfaces;

impl PodPrograms for NoInterfaces {
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

impl Datapath for Kernel {
    fn policy_tables(&mut self) -> Result<PolicyTables, BpfError> {
        Ok(memory::policy_tables(100))
    }

    fn tables(&mut self) -> Result<Tables, BpfError> {
        Ok(Tables {
            services: Box::new(self.services.clone()),
            slots: Box::new(self.slots.clone()),
            backends: Box::new(self.backends.clone()),
            loads: Box::new(self.loads.clone()),
            cursors: Box::new(self.cursors.clone()),
            ids: Box::new(self.ids.clone()),
            ..memory::tables(0)
        })
    }

    fn attach(&mut self) -> Result<Vec<Attachment>, BpfError> {
        Ok(vec![Attachment {
            program: "connect4".into(),
            hook: "cgroup/connect4".into(),
            error: None,
        }])
    }

    fn proxy_switch(&mut self) -> Result<Box<dyn Table<u32, ProxyState>>, BpfError> {
        Ok(Box::new(memory::MemoryTable::new("proxy_state", 1)))
    }

    fn outsiders(&mut self) -> Result<Box<dyn Table<NetnsCookie, u32>>, BpfError> {
        Ok(Box::new(MemoryTable::new("outsiders", 16)))
    }

    fn uplink_programs(&mut self) -> Result<UplinkPrograms, BpfError> {
        Ok(UplinkPrograms {
            uplinks: Box::new(NoInterfaces),
            own: Box::new(NoInterfaces),
            entries: Box::new(MemoryTable::new("uplinks", 16)),
        })
    }

    fn pod_links(&mut self) -> Result<Box<dyn Table<PodInterface, PodLink>>, BpfError> {
        Ok(Box::new(MemoryTable::new("pod_links", 16)))
    }

    fn tender(&mut self) -> Result<Box<dyn Tender>, BpfError> {
        Ok(Box::new(self.clone()))
    }

    fn closer(&mut self) -> Result<Box<dyn Closer>, BpfError> {
        Ok(Box::new(self.clone()))
    }

    fn flow_closer(&mut self) -> Result<FlowCloser, BpfError> {
        let flows = MemoryTable::new("closing_flows", 1);
        FlowCloser::new(Box::new(flows), Destroyer::Netlink).map_err(BpfError::Interfaces)
    }

    fn pod_programs(&mut self) -> Result<Box<dyn PodPrograms>, BpfError> {
        Ok(Box::new(NoInterfaces))
    }

    fn counters(&self) -> Result<Box<dyn CounterSource>, BpfError> {
        Ok(Box::new(self.clone()))
    }

    fn observe(&mut self, _: &Timeouts) -> Result<Observation, BpfError> {
        Ok(MemoryKernel::new(|_| Judged::default()).observation())
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn accelerate(&mut self) -> Result<Option<Accelerated>, BpfError> {
        Ok(None)
    }

    fn retire_others(&self) -> Result<(), BpfError> {
        Ok(())
    }
}

/// A control plane that reads `manifests`, reached through pipes.
fn control(manifests: &Path, drain: &CancellationToken) -> InProcess {
    let config = Config {
        source: SourceConfig::Folder(manifests.to_owned()),
        trust_domain: "cluster.local".into(),
        root_namespace: "istio-system".to_owned(),
        tunnels: false,
        nodes: Default::default(),
    };
    let plane = ControlPlane::start(config, drain.clone()).expect("a folder");
    let (connections, queue) = mpsc::channel(4);
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(plane.ads_service())
            .serve_with_incoming_shutdown(
                ReceiverStream::new(queue),
                drain.clone().cancelled_owned(),
            ),
    );
    InProcess::new(move || {
        let connections = connections.clone();
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            let sent = connections.send(Ok::<_, std::io::Error>(theirs)).await;
            sent.map_err(std::io::Error::other)?;
            Ok(ours)
        })
    })
}

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec:
  clusterIP: 10.96.0.1
  selector: {app: cart}
  ports: [{port: 80, targetPort: 8080}]
";

fn pod(name: &str, address: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: shop, labels: {{app: cart}}}}
spec: {{nodeName: n2, containers: [{{name: c, image: i}}]}}
status:
  phase: Running
  podIP: {address}
  podIPs: [{{ip: {address}}}]
  conditions: [{{type: Ready, status: \"True\"}}]
"
    )
}

struct Running {
    task: tokio::task::JoinHandle<Result<(), AgentError>>,
    drain: CancellationToken,
}

impl Running {
    fn start(kernel: &Kernel, control: &InProcess, run_dir: &Path) -> Self {
        let drain = CancellationToken::new();
        let target = ControlTarget::InProcess(control.clone());
        let mut config = AgentConfig::new("n1", target, "/nowhere".into());
        config.metrics = None;
        config.run_dir = run_dir.to_owned();
        let run_dir = RunDir::lock(run_dir).expect("free");
        let datapath = Box::new(kernel.clone());
        let task = tokio::spawn(agent::run_on(config, run_dir, datapath, drain.clone()));
        Self { task, drain }
    }

    async fn stop(self) {
        self.drain.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(10), self.task).await;
        ended
            .expect("in time")
            .expect("no panic")
            .expect("no error");
    }
}

async fn status(run_dir: &Path) -> wire::Status {
    let mut client = admin::connect(run_dir).await.expect("an agent");
    let status = client.get_status(wire::GetStatusRequest {}).await;
    status.expect("an answer").into_inner()
}

#[tokio::test]
async fn manifests_become_slots_and_outlive_the_agent() {
    let dir = tempfile::tempdir().expect("a directory");
    let (manifests, run_dir) = (dir.path().join("manifests"), dir.path().join("run"));
    std::fs::create_dir(&manifests).expect("made");
    let file = manifests.join("shop.yaml");
    let two = format!("{SERVICE}{}{}", pod("a", "10.0.0.1"), pod("b", "10.0.0.2"));
    std::fs::write(&file, &two).expect("written");
    let drain = CancellationToken::new();
    let control = control(&manifests, &drain);

    let kernel = Kernel::new();
    let agent = Running::start(&kernel, &control, &run_dir);
    let both = ["10.0.0.1:8080", "10.0.0.2:8080"];
    kernel.until_landing(Some(&both)).await;
    let one = format!("{SERVICE}{}", pod("b", "10.0.0.2"));
    std::fs::write(&file, &one).expect("written");
    kernel.until_landing(Some(&both[1..])).await;
    std::fs::write(manifests.join("bad.yaml"), "kind: [").expect("written");
    let mut told = status(&run_dir).await;
    for _ in 0..1_000 {
        if !told.problems.is_empty() && told.synced {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        told = status(&run_dir).await;
    }
    assert!(
        told.synced && told.attached && told.reasons.is_empty(),
        "{told:?}"
    );
    assert!(
        told.problems[0].origin.contains("bad.yaml"),
        "{:?}",
        told.problems
    );
    agent.stop().await;
    assert_eq!(
        kernel.landing().map(|l| l.len()),
        Some(1),
        "the kernel side works on"
    );

    // While nobody looks, a pod goes and another comes.
    let ids = kernel.ids.with(|m| m.clone());
    let other = format!("{SERVICE}{}", pod("c", "10.0.0.3"));
    std::fs::write(&file, &other).expect("written");
    let agent = Running::start(&kernel, &control, &run_dir);
    kernel.until_landing(Some(&["10.0.0.3:8080"])).await;
    let next = kernel.ids.with(|m| m[&0].next_service);
    assert_eq!(next, ids[&0].next_service, "the service kept its id");
    std::fs::remove_file(&file).expect("removed");
    kernel.until_landing(None).await;
    agent.stop().await;
    assert!(kernel.backends.with(|m| m.is_empty()));
    drain.cancel();
}

#[tokio::test]
async fn a_part_that_panics_ends_the_agent_with_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let (manifests, run_dir) = (dir.path().join("manifests"), dir.path().join("run"));
    std::fs::create_dir(&manifests).expect("made");
    let file = manifests.join("shop.yaml");
    std::fs::write(&file, format!("{SERVICE}{}", pod("a", "10.0.0.1"))).expect("written");
    let drain = CancellationToken::new();
    let kernel = Kernel::new();
    let agent = Running::start(&kernel, &control(&manifests, &drain), &run_dir);
    kernel.until_landing(Some(&["10.0.0.1:8080"])).await;
    kernel.closer_panics.store(true, Ordering::Relaxed);
    std::fs::write(&file, SERVICE).expect("written");
    let ended = tokio::time::timeout(Duration::from_secs(10), agent.task).await;
    let error = ended
        .expect("in time")
        .expect("caught")
        .expect_err("an error");
    assert!(error.to_string().contains("stopped"), "{error}");
    assert!(
        !agent.drain.is_cancelled(),
        "the caller's own token is the caller's"
    );
    RunDir::lock(&run_dir).expect("free for the next one");
    drain.cancel();
}
