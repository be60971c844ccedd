//! An ADS server whose every word the test says, and an agent that listens to it.

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};
use weft_proto::convert;
use weft_proto::envoy::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use weft_proto::envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use weft_proto::envoy::google::protobuf::Any;
use weft_proto::model;
use weft_proto::resource::ResourceType;

use crate::engine::worker::{self, EngineHandle};
use crate::engine::{Closer, Engine, EngineConfig};
use crate::metrics::Metrics;
use crate::tables::memory::MemoryTable;
use crate::tables::{BackendId, ServiceEntry, ServiceKey, memory};
use crate::xds::{Client, ClientConfig, InProcess, SharedStatus};

/// Far longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// One stream as the server sees it.
pub(super) struct Conversation<Q, A> {
    requests: Streaming<Q>,
    responses: mpsc::Sender<Result<A, Status>>,
}

pub(super) type Delta = Conversation<DeltaDiscoveryRequest, DeltaDiscoveryResponse>;
pub(super) type World = Conversation<DiscoveryRequest, DiscoveryResponse>;

impl<Q, A> Conversation<Q, A> {
    pub(super) async fn hear(&mut self) -> Q {
        let heard = tokio::time::timeout(PATIENCE, self.requests.message()).await;
        heard
            .expect("a request in time")
            .expect("the stream lives")
            .expect("the client goes on")
    }

    pub(super) async fn say(&self, response: A) {
        self.responses
            .send(Ok(response))
            .await
            .expect("the client listens");
    }

    pub(super) async fn end(self, status: Status) {
        // The client may have gone already.
        let _ = self.responses.send(Err(status)).await;
    }

    /// Nothing is said for a while.
    pub(super) async fn hears_nothing(&mut self) -> bool {
        let quiet = Duration::from_millis(100);
        tokio::time::timeout(quiet, self.requests.message())
            .await
            .is_err()
    }
}

impl Delta {
    /// Hears the first request of every type.
    pub(super) async fn hear_subscriptions(&mut self, count: usize) -> Vec<DeltaDiscoveryRequest> {
        let mut heard = Vec::new();
        for _ in 0..count {
            heard.push(self.hear().await);
        }
        heard
    }

    /// Hears the acknowledgement of `nonce`; its error text, if it is a rejection.
    pub(super) async fn hear_ack(&mut self, nonce: &str) -> Option<String> {
        let request = self.hear().await;
        assert_eq!(request.response_nonce, nonce, "{request:?}");
        request.error_detail.map(|e| e.message)
    }

    pub(super) async fn say_resources(&self, nonce: &str, resources: &[model::Resource]) {
        let resource_type = resources.first().expect("one resource").resource_type();
        let mut response = response(resource_type, nonce);
        response.resources = resources.iter().map(wrap).collect();
        self.say(response).await;
    }

    /// Answers every subscription with nothing or with these.
    pub(super) async fn tell(&mut self, service: &Service) {
        self.say_resources("c", &[service.cluster()]).await;
        // The endpoints that the cluster asks for, and its acknowledgement.
        let mut subscribed = false;
        for _ in 0..2 {
            let request = self.hear().await;
            subscribed |= request.resource_names_subscribe == [service.name];
        }
        assert!(subscribed);
        self.say_resources("e", &[service.endpoints()]).await;
        assert_eq!(self.hear_ack("e").await, None);
        self.say_resources("l", &[service.listener()]).await;
        assert_eq!(self.hear_ack("l").await, None);
    }
}

pub(super) fn response(resource_type: ResourceType, nonce: &str) -> DeltaDiscoveryResponse {
    DeltaDiscoveryResponse {
        type_url: resource_type.type_url().to_owned(),
        nonce: nonce.to_owned(),
        ..Default::default()
    }
}

pub(super) fn wrap(resource: &model::Resource) -> Resource {
    Resource {
        name: resource.name(),
        version: "1".to_owned(),
        resource: Some(convert::encode(resource)),
        ..Default::default()
    }
}

/// A resource whose bytes are no message at all.
pub(super) fn garbage(resource_type: ResourceType, name: &str) -> Resource {
    Resource {
        name: name.to_owned(),
        version: "1".to_owned(),
        resource: Some(Any {
            type_url: resource_type.type_url().to_owned(),
            value: vec![0xff; 16],
        }),
        ..Default::default()
    }
}

/// One service with everything that belongs to it.
pub(super) struct Service {
    pub(super) name: &'static str,
    pub(super) vip: &'static str,
    pub(super) backends: &'static [&'static str],
}

pub(super) const CART: Service = Service {
    name: "cart",
    vip: "10.96.0.1",
    backends: &["10.0.0.1:80", "10.0.0.2:80"],
};

impl Service {
    pub(super) fn cluster(&self) -> model::Resource {
        model::Resource::Cluster(model::Cluster {
            name: self.name.to_owned(),
            endpoints: model::EndpointSource::Eds(self.name.to_owned()),
            policy: model::LbPolicy::Random,
            affinity: None,
            locality: model::LocalityMode::None,
            connect_timeout: None,
            max_connections: None,
            outlier: None,
            unaccelerated: false,
            http: false,
        })
    }

    pub(super) fn endpoints(&self) -> model::Resource {
        let endpoint = |address: &&str| model::Endpoint {
            address: address.parse().expect("address"),
            weight: 1,
            priority: 0,
            health: model::Health::Healthy,
            locality: model::Locality::default(),
        };
        model::Resource::Endpoints(model::ClusterEndpoints {
            name: self.name.to_owned(),
            endpoints: self.backends.iter().map(endpoint).collect(),
        })
    }

    pub(super) fn listener(&self) -> model::Resource {
        model::Resource::Listener(model::Listener {
            name: self.name.to_owned(),
            service: None,
            addresses: vec![self.vip.parse().expect("address")],
            port: 80,
            protocol: model::Protocol::Tcp,
            cluster: self.name.to_owned(),
            layer: model::Layer::Four,
            side: model::Side::Inside,
            source_ranges: Vec::new(),
            health_check_port: None,
            idle_timeout: None,
            max_duration: None,
            connections_per_second: None,
        })
    }

    pub(super) fn key(&self) -> ServiceKey {
        ServiceKey {
            address: self.vip.parse().expect("address"),
            port: 80,
            protocol: model::Protocol::Tcp,
            side: weft_proto::model::Side::Inside,
        }
    }
}

struct Ads {
    delta: mpsc::Sender<Delta>,
    world: mpsc::Sender<World>,
    speaks_delta: bool,
}

type Answers<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for Ads {
    type StreamAggregatedResourcesStream = Answers<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Answers<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Ok(Response::new(converse(request, &self.world).await))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        if !self.speaks_delta {
            return Err(Status::unimplemented("not here"));
        }
        Ok(Response::new(converse(request, &self.delta).await))
    }
}

async fn converse<Q, A: Send + 'static>(
    request: Request<Streaming<Q>>,
    accepted: &mpsc::Sender<Conversation<Q, A>>,
) -> Answers<A> {
    let (responses, queue) = mpsc::channel(16);
    let requests = request.into_inner();
    let conversation = Conversation {
        requests,
        responses,
    };
    // The test may be over.
    let _ = accepted.send(conversation).await;
    Box::pin(ReceiverStream::new(queue))
}

struct NoConnections;

impl Closer for NoConnections {
    fn close(&mut self, _: Vec<BackendId>) {}
}

/// An agent without a kernel, and the server's ends of its streams.
pub(super) struct Site {
    pub(super) engine: EngineHandle,
    pub(super) status: SharedStatus,
    pub(super) metrics: Arc<Metrics>,
    services: MemoryTable<ServiceKey, ServiceEntry>,
    delta: mpsc::Receiver<Delta>,
    world: mpsc::Receiver<World>,
    drain: CancellationToken,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.drain.cancel();
    }
}

impl Site {
    pub(super) fn start() -> Self {
        Self::with(true, |_| {})
    }

    pub(super) fn with(speaks_delta: bool, configure: impl FnOnce(&mut ClientConfig)) -> Self {
        let (delta_in, delta) = mpsc::channel(16);
        let (world_in, world) = mpsc::channel(16);
        let drain = CancellationToken::new();
        let ads = Ads {
            delta: delta_in,
            world: world_in,
            speaks_delta,
        };
        let pipe = serve(ads, drain.clone());
        Self::over(pipe, configure, drain, delta, world)
    }

    /// An agent whose server is whatever `pipe` leads to.
    pub(super) fn on_pipe(pipe: InProcess) -> Self {
        let drain = CancellationToken::new();
        let (_, delta) = mpsc::channel(1);
        let (_, world) = mpsc::channel(1);
        Self::over(pipe, |_| {}, drain, delta, world)
    }

    fn over(
        pipe: InProcess,
        configure: impl FnOnce(&mut ClientConfig),
        drain: CancellationToken,
        delta: mpsc::Receiver<Delta>,
        world: mpsc::Receiver<World>,
    ) -> Self {
        let mut tables = memory::tables(10_000);
        let services = MemoryTable::new("services", 10_000);
        tables.services = Box::new(services.clone());
        let engine = Engine::new(
            tables,
            memory::policy_tables(1_000),
            EngineConfig::new("here"),
        )
        .expect("empty tables");
        let (engine, _) = worker::start(engine, Box::new(NoConnections), drain.clone());
        let mut config = ClientConfig::new("here");
        config.backoff_base = Duration::from_millis(1);
        config.backoff_cap = Duration::from_millis(10);
        config.optional_wait = Duration::from_millis(50);
        configure(&mut config);
        let (status, metrics) = (SharedStatus::default(), Arc::new(Metrics::new()));
        let client = Client {
            config,
            connect: Box::new(pipe),
            engine: engine.clone(),
            status: status.clone(),
            metrics: Arc::clone(&metrics),
        };
        tokio::spawn(client.run(drain.clone()));
        Self {
            engine,
            status,
            metrics,
            services,
            delta,
            world,
            drain,
        }
    }

    pub(super) async fn delta(&mut self) -> Delta {
        let next = tokio::time::timeout(PATIENCE, self.delta.recv()).await;
        next.expect("a stream in time").expect("the server lives")
    }

    pub(super) async fn world(&mut self) -> World {
        let next = tokio::time::timeout(PATIENCE, self.world.recv()).await;
        next.expect("a stream in time").expect("the server lives")
    }

    /// Slots of a service's VIP; `None`: not there.
    pub(super) fn slots(&self, service: &Service) -> Option<u32> {
        self.services
            .with(|m| m.get(&service.key()).map(|e| e.slots))
    }

    pub(super) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !condition(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let done = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(done.is_ok(), "{what}: {:?}", self.status.snapshot());
    }
}

fn serve(ads: Ads, drain: CancellationToken) -> InProcess {
    let (connections, queue) = mpsc::channel(16);
    let service = AggregatedDiscoveryServiceServer::new(ads);
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming_shutdown(ReceiverStream::new(queue), drain.cancelled_owned()),
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
